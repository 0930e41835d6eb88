# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Play the worlds yourself
#
# After this notebook you will have played a task that agents are trained on, by hand and with a plan
# beside you, and taken back any step. You will have seen two different ways lead into one state, which
# is what step-level credit lives on, and the exact value of every state of a small world.
#
# All cells run in **about ten seconds**, without a GPU and without torch. The buttons need a running
# kernel: `make lab` opens JupyterLab here.

# %%
import widgets
from gagpo import Config
from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
from gagpo.launch import gather_parameters
from widgets.graph import small_world, value_graph
from widgets.play import Play
from widgets.worlds import meeting_tables, plan_table, speed_table

before = set(globals())

# %% [markdown]
# ## Settings
#
# Change them here, or set them from outside with `papermill -p name value`. The world's own are explained
# in `gagpo/config.py`.

# %% tags=["parameters"]
# household, webshop, keydoor, frozenlake, alfworld (set games too), or a world that a package adds.
env = "household"
games = None
unseen_games = None
catalogue = None
task_types = []
max_steps = 50
success_reward = 10.0
num_receptacles = 8
num_objects = 6

# The seed draws the tasks that are offered, num_tasks of each split, and decides what is chance.
# A task id takes that one; None takes the first of those offered.
seed = 0
num_tasks = 6
task = None

# The picture of exact values: keydoor or frozenlake; policy is optimal or random.
exact_env = "keydoor"
policy = "optimal"
gamma = 0.95

# %%
config = Config.from_flat(gather_parameters(globals(), before, own=("task", "exact_env", "policy")))
world = make_world(config.world)

# %% [markdown]
# ## Play
#
# Click a command, or type one and press Enter: also one that is not admissible, to see what the world
# answers. *Filter* finds a command among many. *Undo* and *Back to* return to an earlier step exactly, also
# after the end. *Show the whole state* tells what the player has not found yet.

# %%
player = Play(world, task=task, seed=config.run.seed, num_tasks=config.rollout.num_tasks)
player.show()

# %% [markdown]
# The task in the cells below is the one that was chosen above when they ran; run them again after *Start*.
#
# ## A plan, step by step
#
# A plan with the fewest commands where the world can tell one, else that of its expert. Warm starts imitate
# such plans. *Seen before* names an earlier step that was in the same state.

# %%
played = world.make(player.session.env.task_id)
plan_table(played, config.run.seed)

# %% [markdown]
# ## Two ways into one state
#
# Siblings whose ways meet have a state in common, and what each earns from there on can be compared. What is
# seen at that moment depends on the last command too, so the same state may look different: that is why
# states have keys. Where siblings never meet, there is nothing to compare.

# %%
meeting_tables(played, config.run.seed)

# %% [markdown]
# ## What every state is worth
#
# In a small world all states can be enumerated and their values computed exactly. An estimate of credit
# can then be measured against the truth. Try `policy = "random"`, and `exact_env = "frozenlake"`, where a
# command may lead elsewhere than asked.

# %%
exact_task = small_world(exact_env, config.run.seed)
widgets.show(value_graph(exact_task, policy=policy, gamma=config.credit.gamma))

# %% [markdown]
# ## How fast they are
#
# Measured here and now, each world with its default size; other work on the machine counts against it.

# %%
speed_table([WorldConfig(env=name) for name in ("household", "webshop", "keydoor", "frozenlake")])

# %% [markdown]
# ## Made with

# %%
widgets.versions_table()
