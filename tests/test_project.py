"""The project's own promises: layers, imports, size, safety, and papers that agree with the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import gagpo

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


class Layer(NamedTuple):
    third_party: set[str]
    modules: str


# From the bottom up: a module imports only modules that stand before it, and of other projects only
# what its layer names. A new module has to be given its place here.
LAYERS = {
    "records and credit": Layer(
        {"numpy"},
        """
        gagpo.checked gagpo.config gagpo.plugins gagpo.table gagpo.similar gagpo.state_keys
        gagpo.credit.sums gagpo.credit.groups gagpo.credit.columns gagpo.credit.episode gagpo.credit.gagpo
        gagpo.credit.baselines gagpo.credit.hgpo gagpo.credit.graph gagpo.credit.graphgpo gagpo.credit.bellman
        gagpo.credit.bepo gagpo.credit.gae gagpo.credit gagpo.stats gagpo.aggregate gagpo.weights
        gagpo.diagnostics gagpo.agreement gagpo
        """,
    ),
    "worlds, rollout and run folder": Layer(
        {"numpy", "pyarrow", "gymnasium", "minigrid", "rapidfuzz", "spacy", "textworld"},
        """
        gagpo.envs gagpo.envs.problem gagpo.envs.rules gagpo.envs.wording gagpo.envs.goals gagpo.envs.pddl
        gagpo.envs.planner gagpo.envs.shortest gagpo.envs.rooms gagpo.envs.houses gagpo.envs.picture
        gagpo.envs.game
        gagpo.envs.base gagpo.envs.check gagpo.envs.worker gagpo.envs.seeded gagpo.envs.exact
        gagpo.envs.wrappers
        gagpo.envs.official gagpo.envs.tw_pddl gagpo.envs.export gagpo.envs.household gagpo.envs.alfworld
        gagpo.envs.keydoor gagpo.envs.tabular gagpo.envs.meet
        gagpo.envs.tw_game gagpo.envs.textworld gagpo.envs.gymtext gagpo.envs.grid_view gagpo.envs.minigrid
        gagpo.envs.webshop gagpo.envs.webshop.wordbreak gagpo.envs.webshop.porter gagpo.envs.webshop.analysis
        gagpo.envs.webshop.postings gagpo.envs.webshop.index_files gagpo.envs.webshop.index
        gagpo.envs.webshop.fields gagpo.envs.webshop.json_array gagpo.envs.webshop.catalogue
        gagpo.envs.webshop.files gagpo.envs.webshop.lexicon gagpo.envs.webshop.generate
        gagpo.envs.webshop.reward gagpo.envs.webshop.goals gagpo.envs.webshop.nouns gagpo.envs.webshop.pages
        gagpo.envs.webshop.shop gagpo.envs.webshop.searches gagpo.envs.webshop.planner
        gagpo.envs.webshop.game gagpo.envs.webshop.world
        gagpo.forks_file gagpo.forks gagpo.oracle gagpo.fidelity gagpo.board gagpo.walks gagpo.fidelity_cell
        gagpo.prompts gagpo.masking gagpo.rollout gagpo.state_actor gagpo.steps_file gagpo.store
        gagpo.texts gagpo.query gagpo.find gagpo.what_if gagpo.parameters gagpo.align
        gagpo.compare
        gagpo.facts gagpo.launch
        gagpo.importers.fields gagpo.importers.entries gagpo.importers.records gagpo.importers.keys
        gagpo.importers.collect gagpo.importers.messages gagpo.importers.chat gagpo.importers.atif
        gagpo.importers.verl gagpo.importers.prime_rl gagpo.importers.swe_agent gagpo.importers.inspect_log
        gagpo.importers.own_steps gagpo.importers.detect gagpo.importers gagpo.importers.run_folder
        gagpo.importers.command
        gagpo.plain_files gagpo.targets gagpo.labels gagpo.annotation_record gagpo.annotations gagpo.review
        gagpo.review_queue gagpo.annotations_export gagpo.annotations_command
        """,
    ),
    "widgets": Layer(
        {"numpy", "pyarrow", "plotly", "ipywidgets", "anywidget", "traitlets", "IPython"},
        """
        widgets.plots widgets.progress widgets.tables widgets.diagnosis widgets
        widgets.session widgets.worlds widgets.graph widgets.console widgets.play
        widgets.lab_settings widgets.imports widgets.recorded widgets.lab widgets.what_if widgets.fidelity
        """,
    ),
    "torch": Layer(
        {"numpy", "torch", "transformers", "tokenizers", "safetensors", "peft"},
        """
        gagpo.tensorboard gagpo.batch gagpo.loss gagpo.checkpoint gagpo.tiny gagpo.policy
        gagpo.update gagpo.critic gagpo.warm_start gagpo.train gagpo.__main__
        """,
    ),
}
ORDER = [name for layer in LAYERS.values() for name in layer.modules.split()]
LAYER_OF = {name: layer for layer, (_, modules) in LAYERS.items() for name in modules.split()}


def files(*folders: str, pattern: str = "*") -> list[Path]:
    """The files of these folders, without what Python and Jupyter leave there."""
    found = [path for folder in folders for path in (ROOT / folder).rglob(pattern) if path.is_file()]
    left_out = {"__pycache__", ".ipynb_checkpoints"}
    return sorted(path for path in found if not left_out & set(path.parts) and path.name[0] != ".")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in files("gagpo", "widgets", pattern="*.py")}


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything that is imported, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the full name of the module"
            below = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            yield from below or {node.module}


def layer_faults(name: str, tree: ast.AST) -> list[str]:
    """What this module imports although its place in LAYERS forbids it."""
    before = ORDER[: ORDER.index(name)]
    third_party = LAYERS[LAYER_OF[name]].third_party | sys.stdlib_module_names
    faults = []
    for other in imported(tree):
        top = other.partition(".")[0]
        if top == "widgets" and not name.startswith("widgets"):
            faults.append(f"{name} imports {other}: the package must not know the widgets")
        elif top in ("gagpo", "widgets") and other not in before:
            faults.append(f"{name} imports {other}, which stands above it")
        elif top not in ("gagpo", "widgets") and top not in third_party:
            faults.append(f"{name} imports {other}, which its layer ({LAYER_OF[name]}) does without")
    return faults


def test_every_module_has_one_place_in_the_layers():
    assert sorted(ORDER) == sorted(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down_only(name):
    if name not in ORDER:
        pytest.fail(f"{name} has no place in LAYERS")
    assert layer_faults(name, ast.parse(MODULES[name].read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("gagpo.stats", "import torch"),
        ("gagpo.stats", "from gagpo.store import Run"),
        ("gagpo.rollout", "def f():\n    import torch.nn"),
        ("gagpo.envs.rules", "from gagpo.envs import planner"),
        ("gagpo.train", "import widgets"),
        ("widgets", "from gagpo.policy import Policy"),
        ("widgets", "import torch"),
        ("gagpo.table", "import pyarrow"),
    ],
)
def test_the_layer_rule_sees(name, source):
    assert len(layer_faults(name, ast.parse(source))) == 1


HEAVY = ("torch", "transformers", "vllm", "peft", "plotly")


@pytest.mark.parametrize(
    ("imports", "absent"), [("gagpo", (*HEAVY, "pyarrow")), ("gagpo, widgets", HEAVY)], ids=["gagpo", "both"]
)
def test_import_needs_nothing_heavy_and_is_quick(imports, absent):
    def run(before: str) -> str:
        program = f"""
import sys, time
{before}
start = time.process_time()  # what else the machine does is not counted
import {imports}
spent = time.process_time() - start
print(spent, *[name for name in {absent} if sys.modules.get(name)])
"""
        return subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    runs = [run("").split() for _ in range(5)]
    assert [loaded for _, *loaded in runs] == [[]] * 5
    assert min(float(spent) for spent, *_ in runs) < 0.5
    run(f"sys.modules.update(dict.fromkeys({absent}))")  # None there makes the import fail


def code_faults(tree: ast.AST, may_print: bool = False) -> list[str]:
    """Uses of what the package does without: eval, pickle, the environment, print."""
    barred = {"eval", "exec", "compile", "__import__"} | (set() if may_print else {"print"})
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in barred:
            faults.append(f"line {node.lineno}: {node.func.id}()")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in (
            *("os.environ", "os.getenv", "os.environb", "torch.load", "yaml.load", "yaml.unsafe_load"),
        ):
            faults.append(f"line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            faults.append(f"line {node.value.lineno}: allow_pickle")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names]
            if {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"} & {
                name.partition(".")[0] for name in [*names, getattr(node, "module", None) or ""]
            } or (getattr(node, "module", None) == "os" and {"environ", "getenv"} & set(names)):
                faults.append(f"line {node.lineno}: {ast.unparse(node)}")
    return faults


@pytest.mark.parametrize("name", MODULES)
def test_no_eval_pickle_environment_or_print(name):
    tree = ast.parse(MODULES[name].read_text("utf-8"))
    faults = code_faults(tree, may_print=name == "gagpo.__main__")
    # The checker asks whether an environment can be pickled, and reads back its own bytes only. A
    # worker's process reads back the snapshots that such a process made; nobody else opens them.
    wanted = ["import pickle"] if name in ("gagpo.envs.check", "gagpo.envs.worker") else []
    assert [fault.partition(": ")[2] for fault in faults] == wanted


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "exec(text)",
        "import pickle",
        "from pickle import loads",
        "torch.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "yaml.load(text)",
        "os.environ['HOME']",
        "home = os.getenv('HOME')",
        "from os import environ",
        "print('x')",
    ],
)
def test_the_code_rule_sees(source):
    assert len(code_faults(ast.parse(source))) == 1
    assert code_faults(ast.parse("model.eval(); re.compile('x'); os.path.join('a', 'b'); load(path)")) == []


@pytest.mark.parametrize("path", files("gagpo", "widgets", "benchmarks", pattern="*.py"), ids=module_name)
def test_files_and_functions_fit_in_the_head(path):
    text = path.read_text("utf-8")
    functions = [
        n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    long = [n.name for n in functions if (n.end_lineno or 0) - n.lineno + 1 > 70]
    assert len(text.splitlines()) <= 320 and long == []


def test_the_code_map_lists_every_file_and_no_other():
    section = (ROOT / "README.md").read_text("utf-8").split("\n## Code map\n")[1].split("\n## ")[0]
    listed = re.findall(r"^(\w+/\S+) {2,}\S.+$", section, re.MULTILINE)
    there = files("gagpo", "widgets", "notebooks", "benchmarks", "recipes")
    assert sorted(listed) == sorted(path.relative_to(ROOT).as_posix() for path in there)


def test_what_the_readme_prints_is_true():
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    runnable = [block for block in blocks if "open_run" not in block]  # that one needs a run
    assert len(runnable) == 3
    for block in runnable:
        printed = subprocess.run(
            [sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
        ).stdout
        promised = re.findall(r"^print\(.*\)  # (.+)$", block, re.MULTILINE)
        assert printed.splitlines()[: len(promised)] == promised
        assert bool(printed) == ("print(" in block)


def test_conda_and_make_install_the_same_extras():
    pip = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"][-1]["pip"]
    extras = re.search(r"^EXTRAS := (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[1]
    assert pip == ["-c requirements.lock", f"-e .[{extras}]"]
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


REQUIREMENTS = {
    extra: [Requirement(text) for text in texts]
    for extra, texts in {"core": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}.items()
}


@pytest.mark.parametrize("extra", REQUIREMENTS)
def test_requirements_are_bounded_on_both_sides(extra):
    for requirement in REQUIREMENTS[extra]:
        assert sorted(part.operator for part in requirement.specifier) == ["<", ">="], requirement


def test_the_lock_pins_what_the_extras_name_within_their_bounds():
    lines = [line for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines() if line[:1] != "#"]
    pins = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines]
    assert None not in pins, "only name==version, without local tags"
    version = {canonicalize_name(pin[1]): Version(pin[2]) for pin in pins}
    assert len(version) == len(lines)
    for extra in ("core", "train", "lab", "dev"):
        for requirement in REQUIREMENTS[extra]:
            pinned = version.get(canonicalize_name(requirement.name))
            assert pinned and pinned in requirement.specifier, f"{requirement}; the lock has {pinned}"


def test_the_papers_name_the_version_of_the_package():
    released = re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert released[0] == str(cited["version"]) == gagpo.__version__
