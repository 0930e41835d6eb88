"""The grammar of searches: what is read, what is refused and where, and queries that come back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gagpo.query import (
    FIELDS,
    FLAGS,
    MOST_CHARACTERS,
    MOST_TERMS,
    NUMBERS,
    OUTCOMES,
    TEXTS,
    Query,
    QueryError,
    Term,
    parse_query,
)

READ = {
    "": (),
    " \t\n\u00a0": (),
    "mug": (Term("mug"),),
    "mug  -Fridge ": (Term("mug"), Term("Fridge", excluded=True)),
    '"go to" -"a b"': (Term("go to"), Term("a b", excluded=True)),
    '"-x" --x': (Term("-x"), Term("-x", excluded=True)),
    r'"a\"b\\c\n"': (Term('a"b\\c\\n'),),
    '" "': (Term(" "),),
    "10:30 <div> search[x=1] ä:b =": (
        Term("10:30"),
        Term("<div>"),
        Term("search[x=1]"),
        Term("ä:b"),
        Term("="),
    ),
    "success:false": (Term(False, "success"),),
    "-valid=true": (Term(True, "valid", excluded=True),),
    "reward>0 step>=10 td_error<=.5": (
        Term(0.0, "reward", ">"),
        Term(10.0, "step", ">="),
        Term(0.5, "td_error", "<="),
    ),
    "advantage<-1 value:-1.5e-3": (Term(-1.0, "advantage", "<"), Term(-0.0015, "value")),
    "anchor_size=1": (Term(1.0, "anchor_size"),),
    'task:a=b goal="" run:mine': (Term("a=b", "task"), Term("", "goal", "="), Term("mine", "run")),
    "outcome:Truncated": (Term("truncated", "outcome"),),
    'action:"go to"': (Term("go to", "action"),),
    "action:-x -action:x": (Term("-x", "action"), Term("x", "action", excluded=True)),
}


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text: str) -> None:
    assert parse_query(text) == Query(READ[text])


REFUSED = {
    "mug iteraton:1": (4, "unknown field 'iteraton'; did you mean 'iteration'?"),
    "-succes:true": (1, "did you mean 'success'"),
    "http://x": (0, 'to search for the text: "http://x"'),
    'x "abc': (2, "never closed"),
    r'"abc\"': (0, "never closed"),
    '"a""b"': (3, "expected a blank"),
    'a"b"': (1, "right after 'a'; expected a blank"),
    '"a"b': (3, "expected a blank"),
    '""': (0, "an empty phrase"),
    'goal:""': (5, "an empty phrase is in every goal"),
    "-": (0, "'-' alone"),
    "a - b": (2, "'-' alone"),
    "reward>": (7, "nothing after reward>; expected a number"),
    "reward> 1": (7, "nothing after"),
    "reward>one": (7, "reward is 'one'; expected a number"),
    "reward>nan": (7, "expected a number"),
    "reward>1e999": (7, "expected a number"),
    "reward>1_0": (7, "expected a number"),
    "reward>\u0661": (7, "expected a number"),
    "reward=>1": (7, "expected a number"),
    "success:yes": (8, "success is 'yes'; expected true or false"),
    "outcome:won": (8, "outcome is 'won'; expected one of terminated, truncated, error"),
    "success>true": (7, "success cannot be compared by '>'; expected ':' or '='"),
    "goal<=x": (4, "goal cannot be compared by '<='"),
    "Success:true": (0, "did you mean 'success'"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_and_where(text: str) -> None:
    position, message = REFUSED[text]
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    assert message in str(caught.value)
    assert caught.value.position == position
    assert f"query: character {position + 1}:" in str(caught.value)


def test_queries_are_bounded() -> None:
    assert len(parse_query("a " * MOST_TERMS).terms) == MOST_TERMS
    with pytest.raises(QueryError, match=f"expected {MOST_TERMS} at most"):
        parse_query("a " * MOST_TERMS + "b")
    assert len(parse_query("a" * MOST_CHARACTERS).terms[0].value) == MOST_CHARACTERS
    with pytest.raises(QueryError, match="at most"):
        parse_query("a" * MOST_CHARACTERS + "b")


def test_no_query_takes_long() -> None:
    """What makes a backtracking reader slow: thousands of openings that lead nowhere."""
    for text in ('"' + "\\" * 9_000, "(a+)+$" * 1_500, '"' + 'a\\"' * 3_000, "x" * 9_999 + '"'):
        try:
            parse_query(text)
        except QueryError as error:
            assert 0 <= error.position < len(text)


ANY = st.text(max_size=8)
SOME = ANY.filter(bool)
# Everything that a term can be.
TERMS = st.one_of(
    st.builds(Term, SOME, excluded=st.booleans()),
    st.builds(Term, SOME, st.sampled_from(TEXTS), excluded=st.booleans()),
    st.builds(Term, ANY, st.sampled_from(TEXTS), st.just("="), st.booleans()),
    st.builds(Term, ANY, st.just("run"), excluded=st.booleans()),
    st.builds(Term, st.sampled_from(OUTCOMES), st.just("outcome"), excluded=st.booleans()),
    st.builds(Term, st.booleans(), st.sampled_from(FLAGS), excluded=st.booleans()),
    st.builds(
        Term,
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(NUMBERS),
        st.sampled_from((":", "<", "<=", ">", ">=")),
        st.booleans(),
    ),
)


@given(st.lists(TERMS, max_size=4).map(tuple).map(Query))
@example(Query((Term('\\"'), Term("\\", "goal", "=", True), Term("a:b"), Term("-"), Term("\x1c\u2028"))))
def test_what_is_written_is_read_back(query: Query) -> None:
    assert parse_query(str(query)) == query


@given(st.text(st.sampled_from('ab:=<>-" \\1.') | st.characters(), max_size=30))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    try:
        query = parse_query(text)
    except QueryError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert parse_query(str(query)) == query
        assert all(term.field is None or term.field in FIELDS for term in query.terms)
