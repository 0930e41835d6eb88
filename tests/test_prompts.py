"""The prompt "gigpo", and commands with brackets: literal prompts, and every way an answer can fail."""

from __future__ import annotations

import re

import pytest
from corridor import Corridor, CorridorWorld
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gagpo.config import Config, RolloutConfig
from gagpo.policy import Policy
from gagpo.prompts import PROMPTS, gigpo_fault, gigpo_state, instruct_state, read_gigpo, write_gigpo
from gagpo.rollout import Action, collect
from gagpo.tiny import tiny_model

WEBSHOP = ["click[buy now]", "click[< prev]", "click[next >]", "click[b09x-12]", "search[red shoes 10]"]


def test_the_first_prompt_of_a_household_in_full():
    assert gigpo_state(
        "put a clean mug in shelf.", [], "You see a shelf 1.", ["go to shelf 1", "look"], 0
    ) == (
        "You act in a world that answers you in text.\n"
        "Your task: put a clean mug in shelf.\n"
        "You are now at step 1.\n"
        "[Observation 1] You see a shelf 1.\n"
        "Admissible actions:\n"
        "- go to shelf 1\n"
        "- look\n"
        "First think about your situation step by step, between <think> and </think>.\n"
        "Then give exactly one admissible action, between <action> and </action>."
    )


def test_a_later_prompt_of_a_web_shop_in_full():
    history = [("A search page.", "search[shoes]"), ("Ten results.", "(no action)")]
    assert gigpo_state(
        "red shoes below 40 dollars", history, "Ten results.", ["click[buy now]", "search[<words>]"], 5
    ) == (
        "You act in a world that answers you in text.\n"
        "Your task: red shoes below 40 dollars\n"
        "So far you have taken 5 steps.\n"
        "The most recent observations and the actions that you took there:\n"
        "[Observation 4] A search page.\n"
        "[Action 4] search[shoes]\n"
        "[Observation 5] Ten results.\n"
        "[Action 5] (no action)\n"
        "You are now at step 6.\n"
        "[Observation 6] Ten results.\n"
        "Admissible actions:\n"
        "- click[buy now]\n"
        "- search[<words>]\n"
        "In place of <words> write words of your own, without the brackets < and >.\n"
        "First think about your situation step by step, between <think> and </think>.\n"
        "Then give exactly one admissible action, between <action> and </action>."
    )


def test_steps_are_told_where_no_history_is_shown():
    text = gigpo_state("win", [], "a bed.", ["rest"], 1)
    assert "\nSo far you have taken 1 step.\nYou are now at step 2.\n[Observation 2] a bed.\n" in text


def test_instruct_explains_open_parts_and_nothing_else():
    assert instruct_state("buy", [], "Search.", ["search[<words>]"]) == (
        "You are an agent in a text world. Your task: buy\n"
        "Now you see: Search.\n"
        "Commands that are possible now:\n"
        "- search[<words>]\n"
        "Answer with one of these commands, word for word, and nothing else.\n"
        "In place of <words> write words of your own, without the brackets < and >."
    )
    assert instruct_state("buy", [], "Results.", WEBSHOP).endswith("and nothing else.")


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("command", WEBSHOP)
def test_commands_of_a_web_shop_are_read_as_they_are_written(prompt: str, command: str):
    language = PROMPTS[prompt]
    answer = language.write("find red shoes, price below 10 dollars", command)
    assert language.read(answer) == command and language.fault(answer) == ""


ANSWERS = [
    ("<think>so</think><action>look</action>", "look", ""),
    ("\n<think>\nso\n</think>\n\n<action> search[red shoes] </action>\n", "search[red shoes]", ""),
    ("<think></think><action>look</action> done", "look", ""),
    ("Well. <think>so</think> Then: <action>look</action>", "look", ""),
    ("<think>not <action>fly</action></think><action>look</action>", "look", ""),
    ("<think>a <action> tag</think><action>look</action>", "look", ""),
    ("look", "", "no thinking"),
    ("", "", "no thinking"),
    ("<action>look</action>", "", "no thinking"),
    ("so</think><action>look</action>", "", "no thinking"),
    ("<action>look</action><think>so</think>", "", "no thinking"),
    ("<action>look</action><think>so</think><action>look</action>", "", "no thinking"),
    ("<think>so</think>", "", "no action"),
    ("<think>so</think> look", "", "no action"),
    ("<think><action>look</action></think>", "", "no action"),
    ("<think>so</think>look</action>", "", "no action"),
    ("<think>so</think><action>look</action><action>look</action>", "", "several actions"),
    ("<think>so</think><action><action>look</action></action>", "", "several actions"),
    ("<think>so</think><action></action>", "", "empty action"),
    ("<think>so</think><action> \n </action>", "", "empty action"),
    ("<think>so and so", "", "cut off"),
    ("<think>so <action>look</action>", "", "cut off"),
    ("<think>so</think><action>lo", "", "cut off"),
    ("<think>so</think><action>look</action><action>go", "", "cut off"),
    ("<think>so</think></action><action>look", "", "cut off"),
]


@pytest.mark.parametrize(("answer", "command", "fault"), ANSWERS)
def test_an_answer_holds_one_action_after_a_thought_or_the_fault_is_named(answer, command, fault):
    assert (read_gigpo(answer), gigpo_fault(answer)) == (command, fault)


READABLE = re.compile(
    r"(?:(?!<think>|<action>).)*<think>(?:(?!</think>).)*</think>"
    r"(?:(?!<action>).)*<action>((?:(?!<action>|</action>).)*)</action>(?:(?!<action>).)*",
    re.DOTALL,
)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<action>", "</action>", "go", " ", "<"]), max_size=9)
)
def test_what_is_readable_equals_one_regular_expression(pieces: list[str]):
    answer = "".join(pieces)
    found = READABLE.fullmatch(answer)
    command = found[1].strip() if found else ""
    assert read_gigpo(answer) == command
    assert (gigpo_fault(answer) == "") == (command != "")


@given(st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), min_size=1))
def test_any_command_without_tags_is_read_as_it_is_written(command: str):
    assert read_gigpo(write_gigpo("goal", command)) == command.strip()


class Answers:
    """Answers each turn with the next text, as a policy would with the prompt "gigpo"."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.prompts, self.num_acts = answers, [], 0

    def encode(self, prompts):
        self.prompts += prompts
        return [tuple(map(ord, prompt)) for prompt in prompts]

    def act(self, turns, temperature, seed):
        answer = self.answers[self.num_acts % len(self.answers)]
        self.num_acts += 1
        return [Action(read_gigpo(answer), (1,), (0.0,), False, gigpo_fault(answer)) for _ in turns]


def play(world: CorridorWorld, actor: Answers, **settings):
    config = RolloutConfig(prompt="gigpo", masked=False, **{"max_prompt_tokens": 9999, **settings})
    (trajectory,) = collect(world, actor, ["c-1"], config, num_siblings=1, temperature=1.0, seed=(0,))
    return trajectory


def test_a_rollout_records_the_fault_and_shows_it_in_the_next_prompt():
    good, bad = write_gigpo("", "go right"), "<think>so</think>go right"
    actor = Answers(good, bad, good)
    trajectory = play(CorridorWorld(), actor, history=1)
    assert [step.action for step in trajectory.steps] == ["go right", "(no action)", "go right"]
    assert [step.valid for step in trajectory.steps] == [True, False, True] and trajectory.success
    assert actor.prompts[2].splitlines()[2:8] == [
        "So far you have taken 2 steps.",
        "The most recent observations and the actions that you took there:",
        "[Observation 2] you are at place 3.",
        "[Action 2] (no action)",
        "You are now at step 3.",
        "[Observation 3] nothing happens.",
    ]


def test_steps_keep_their_numbers_where_a_long_prompt_loses_its_oldest_history():
    actor = Answers(write_gigpo("", "wait"))
    play(CorridorWorld(), actor, history=5)
    fits = len(actor.prompts[2])
    short = Answers(write_gigpo("", "wait"))
    trajectory = play(CorridorWorld(), short, history=5, max_prompt_tokens=fits)
    last = "".join(map(chr, trajectory.steps[-1].prompt_ids))
    assert len(last) <= fits
    assert "taken 7 steps.\n" in last and "[Action 5]" not in last
    assert "[Observation 6] you are at place 2.\n[Action 6] wait\n[Observation 7]" in last


def test_a_fault_is_never_played_not_even_where_a_world_would_take_it():
    class Odd(Corridor):
        def step(self, action):
            played.append(action)
            return super().step(action)

    class World(CorridorWorld):
        def make(self, task_id):
            return Odd(task_id)

    played: list[str] = []
    play(World(), Answers("<think></think>", "<think></think><action>(no action)</action>"))
    assert played[:4] == ["", "(no action)", "", "(no action)"]


def byte_tokenizer(*special: str) -> PreTrainedTokenizerFast:
    """A token for each byte, and for each special text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>", additional_special_tokens=[*special]
    )


def policy(tokenizer: PreTrainedTokenizerFast) -> Policy:
    small = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_action_tokens": 40}
    config = Config.from_flat({"prompt": "gigpo", "masked": False, **small})
    return Policy(tiny_model(tokenizer, config.policy, 0), tokenizer, config)


def test_a_policy_reads_its_tokens_and_says_what_was_cut_off():
    made = policy(byte_tokenizer())

    def read(answer: str, end: bool) -> tuple[str, bool, str]:
        ids = [*made.tokenizer(answer)["input_ids"], *[made.end_id] * end]
        action = made._answer(ids, [0.0] * len(ids))
        return action.text, action.cut_off, action.fault

    answer = write_gigpo("", "search[red shoes]")
    assert read(answer, end=True) == ("search[red shoes]", False, "")
    assert read(answer, end=False) == ("search[red shoes]", True, "")
    assert read("<think>so</think>", end=True) == ("", False, "no action")
    assert read("<think>so</think><acti", end=False) == ("", True, "cut off")
    assert made.command_ids("", "look")[:-1] == tuple(
        made.tokenizer("<think>\n</think>\n<action>look</action>")["input_ids"]
    )


def test_an_untrained_policy_plays_and_every_step_is_a_named_fault():
    made = policy(byte_tokenizer())
    config = RolloutConfig(prompt="gigpo", masked=False, max_prompt_tokens=9999)
    (trajectory,) = collect(
        CorridorWorld(), made, ["c-1"], config, num_siblings=1, temperature=1.0, seed=(0,)
    )
    assert {step.action for step in trajectory.steps} <= {"(no thinking)", "(cut off)"}
    assert not any(step.valid for step in trajectory.steps)


def test_masked_decoding_is_refused_before_anything_is_loaded():
    with pytest.raises(ValueError, match=r"masked: True with prompt 'gigpo'.*expected False"):
        Config.from_flat({"prompt": "gigpo"})


def test_tokenizers_that_lose_the_tags_are_refused():
    with pytest.raises(ValueError, match=r"prompt: 'gigpo'; the model's tokenizer.*\(no thinking\)"):
        policy(byte_tokenizer("<think>", "</think>"))
    with pytest.raises(ValueError, match="prompt: 'gigpo'; the model's tokenizer"):
        Policy.build(Config.from_flat({"prompt": "gigpo", "masked": False}), CorridorWorld())
