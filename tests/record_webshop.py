"""Records what the original WebShop answers, for tests/test_webshop_parity.py.

    python tests/record_webshop.py ORIGINAL OUT.json.xz

ORIGINAL is a checkout of princeton-nlp/WebShop. This Python has to have what the checkout's text
environment needs (flask, beautifulsoup4, selenium, gym, thefuzz, rank_bm25, cleantext, spacy with
en_core_web_sm, pyserini with Java), torch excepted. The catalogue is a generated one with odd
products among them; nothing of the original's data is used, and its files are left as they are.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import lzma
import os
import random
import runpy
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import odd_products

from gagpo.envs.webshop.generate import generate

NUM_STEPS = 14
SEARCHES = (
    "kettle", "kettles that boil water", "gluten free", "women's dress slim-fit", "<c> beauty", "<q> teas",
    "<q> kettles", "qqqq", "item_page", "search_results kettle", "done", '"red"', '"two" kettle', "a  the",
    "x]", "KETTLE Größe ½", "the", "b0odd00006",
)  # fmt: skip
GARBAGE = (
    "", "click", "search", "search[]", "click[]", "click[nothing]", "buy now", "Click[buy now]",
    "click[search]", "think[about it]", "search[kettle", "click[Back To Search] please", "x\nclick[buy now]",
    "search[[kettle]",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("original", type=Path, help="a checkout of princeton-nlp/WebShop")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--seed", type=int, default=7, help="of the catalogue, of prices and of play")
    parser.add_argument("--products", type=int, default=240, help="generated products, besides the odd ones")
    parser.add_argument("--episodes", type=int, default=60, help="of each mode and each kind of goals")
    arguments = parser.parse_args()
    catalogue = make_catalogue(arguments.products, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        original = arguments.original.resolve()
        record = recorded(original, Path(folder), catalogue, arguments.seed, arguments.episodes)
    text = json.dumps({**catalogue, **record}, ensure_ascii=False, indent=0)
    arguments.out.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e3:.0f} kB")


def make_catalogue(num_products: int, seed: int) -> dict[str, Any]:
    products, attributes, requests = generate(num_products, seed)
    return {
        "products": products + odd_products.PRODUCTS,
        # Without human goals the original needs an entry for every product.
        "attributes": {p["asin"]: {} for p in odd_products.PRODUCTS} | attributes | odd_products.ATTRIBUTES,
        "requests": requests | odd_products.REQUESTS,
    }


def recorded(
    original: Path, folder: Path, catalogue: dict[str, Any], seed: int, num_episodes: int
) -> dict[str, Any]:
    """Play the original on a catalogue."""
    text_env = open_original(original, folder, catalogue)
    record: dict[str, Any] = {"versions": versions(), "seed": seed, "nouns": nouns(catalogue)}
    for human in (True, False):
        random.seed(seed)
        server = text_env.SimServer("http://127.0.0.1:3000", str(folder / "products.json"), human_goals=human)
        prices = server.product_prices
        kind = "human" if human else "synthetic"
        record[kind] = {
            "prices": prices,
            "goals": [slim(goal) for goal in server.goals],
            "episodes": [
                episode(text_env, server, mode, number, seed)
                for mode in ("text", "text_rich")
                for number in range(num_episodes)
            ],
        }
    return record


def open_original(original: Path, folder: Path, catalogue: dict[str, Any]) -> Any:
    """The module of its text environment, with the catalogue laid out and indexed in `folder`."""
    (folder / "web_agent_site").mkdir()
    for name, content in catalogue.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    text_env = load_original(original, folder)
    make_index(original, folder)
    return text_env


def load_original(original: Path, folder: Path) -> Any:
    """The module of its text environment, with its data taken from `folder`."""
    sys.path.insert(0, str(original))
    sys.modules.setdefault("torch", types.ModuleType("torch"))  # for images only
    utils = importlib.import_module("web_agent_site.utils")
    utils.DEFAULT_FILE_PATH = str(folder / "products.json")
    utils.DEFAULT_ATTR_PATH = str(folder / "attributes.json")
    utils.HUMAN_ATTR_PATH = str(folder / "requests.json")
    importlib.import_module("web_agent_site.engine.engine").BASE_DIR = str(folder / "web_agent_site")
    return importlib.import_module("web_agent_site.envs.web_agent_text_env")


def make_index(original: Path, folder: Path) -> None:
    """Run the original's own two steps: documents, then Lucene's index of them."""
    work = folder / "search_engine"
    for name in ("resources", "resources_100", "resources_1k", "resources_100k"):
        (work / name).mkdir(parents=True)
    home = Path.cwd()
    os.chdir(work)
    try:
        runpy.run_path(str(original / "search_engine" / "convert_product_file_format.py"))
    finally:
        os.chdir(home)
    command = "-m pyserini.index.lucene --collection JsonCollection --input resources --index indexes"
    command += " --generator DefaultLuceneDocumentGenerator --threads 1"
    command += " --storePositions --storeDocvectors --storeRaw"
    subprocess.run([sys.executable, *command.split()], cwd=work, check=True, stdout=subprocess.DEVNULL)


def nouns(catalogue: dict[str, Any]) -> dict[str, list[str]]:
    """What the original's tagger calls a noun, in each title."""
    nlp = sys.modules["web_agent_site.engine.goal"].nlp
    return {
        p["name"]: [token.text.lower() for token in nlp(p["name"]) if token.pos_ in ("NOUN", "PROPN")]
        for p in catalogue["products"]
    }


def slim(goal: dict[str, Any]) -> dict[str, Any]:
    keys = ("asin", "instruction_text", "attributes", "price_upper", "goal_options")
    return {key: goal[key] for key in keys}


def episode(text_env: Any, server: Any, mode: str, number: int, seed: int) -> dict[str, Any]:
    """One episode: half of them look for the goal's product, half wander."""
    rng = random.Random(f"{seed}/{mode}/{number}/{len(server.goals)}")
    index = rng.randrange(len(server.goals))
    env = text_env.WebAgentTextEnv(observation_mode=mode, server=server)
    observation, _ = env.reset(session=index)
    steps: list[dict[str, Any]] = []
    shown = {"observation": observation, **env.get_available_actions()}
    for turn in range(NUM_STEPS):
        action = choose(rng, server.goals[index], shown["clickables"], turn, guided=number % 2 == 0)
        observation, reward, done, _ = env.step(action)
        steps.append({"action": action, "reward": reward, "done": done})
        if done:
            steps[-1] |= {
                "observation": observation,
                "parts": server.user_sessions[env.session]["verbose_info"],
            }
            break
        before, shown = shown, {"observation": observation, **env.get_available_actions()}
        steps[-1] |= {key: value for key, value in shown.items() if value != before[key]}
    return {"mode": mode, "goal": index, "start": env.prev_obs[0], "steps": steps}


def choose(
    rng: random.Random, goal: dict[str, Any], clickables: list[str], turn: int, *, guided: bool
) -> str:
    if rng.random() < 0.12:
        return rng.choice(GARBAGE)
    if guided and rng.random() < 0.85:
        options = goal["goal_options"]
        wanted = list(options.values()) if isinstance(options, dict) else options
        towards = [name for name in (goal["asin"].lower(), *wanted) if name in clickables]
        if turn == 0 or (clickables == ["search"]):
            return f"search[{goal['name'] if rng.random() < 0.7 else goal['instruction_text']}]"
        if turn > NUM_STEPS - 4 and "buy now" in clickables:
            return "click[Buy Now]"
        if towards:
            return f"click[{rng.choice(towards)}]"
    if rng.random() < 0.15 or clickables == ["search"]:
        return f"search[{rng.choice(SEARCHES)}]"
    # Seldom straight back or out: the pages in between are what is to be seen.
    dull = ("back to search", "buy now", "next >")
    others = [name for name in clickables if name not in dull and name]
    return f"click[{rng.choice(others if others and rng.random() < 0.85 else clickables)}]"


def versions() -> dict[str, str]:
    packages = ("beautifulsoup4", "flask", "jinja2", "thefuzz", "rapidfuzz", "spacy")
    return {"python": sys.version.split()[0]} | {name: importlib.metadata.version(name) for name in packages}


if __name__ == "__main__":
    main()
