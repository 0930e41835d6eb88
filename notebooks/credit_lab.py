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
# # The credit laboratory
#
# After this notebook you will have seen what nine estimators say about the same steps, how far each is
# from the exact truth, where lambda, gamma and the state key matter, and what your own recorded
# trajectories leave to learn from.
#
# All cells run in **about twenty seconds**, without a GPU and without torch. Look at your own:
#
# ```bash
# papermill notebooks/credit_lab.ipynb out.ipynb -p trajectories /path/to/chats.json
# papermill notebooks/credit_lab.ipynb out.ipynb -p run_id household
# ```

# %%
import widgets
from gagpo import Config
from gagpo.launch import gather_parameters
from widgets.fidelity import fidelity_figure, fidelity_table, measure, show_recorded
from widgets.imports import (
    credited_siblings,
    keys_on_offer,
    loss_weights,
    overview_table,
    read_recordings,
    report_table,
)
from widgets.lab import compare_keys, side_by_side
from widgets.lab_settings import OWN_PARAMETERS, LabSettings
from widgets.recorded import gather_recorded
from widgets.what_if import agreement_grids, gamma_curves, lambda_curves

before = set(globals())

# %% [markdown]
# ## Settings
#
# Change them here, or set them from outside with `papermill -p name value`. Those of worlds, rollout and
# credit are explained in `gagpo/config.py`, the notebook's own in `widgets/lab_settings.py`.

# %% tags=["parameters"]
# Whose credit: a file of another project, else an iteration of a run, else trajectories played here.
trajectories = None
run_id = ""
runs_dir = None
iteration = None
# A task id takes that one; None takes one whose siblings differ in success.
task = None
num_shown = 4

# What is played here, and measured in any case: keydoor or frozenlake, by a policy that succeeds so often.
env = "keydoor"
success = 0.6
max_steps = 20
min_plan_steps = 6
num_tasks = 8
num_siblings = 8
num_batches = 16
seed = 0

# Credit; `estimator` is for the sections on state keys and on your own trajectories.
estimator = "gagpo"
gamma = 0.95
lam = 0.8
normalize = "group"
own_return = "included"
truncation = "terminal"
invalid_penalty = 0.1
penalty_rule = "reward"
omega = 1.0
episode_term = 0.0
hgpo_history = 2
hgpo_alpha = 1.0
goal_worth = 10.0
state_key = "exact"
key_history = 2
key_similarity = 0.95
# `similar` compares every two texts of a task: with long ones it takes seconds to minutes.
compared_keys = ["exact", "observation", "history", "normalized", "similar"]

# How the file of another project is read; docs/importing.md tells the formats and their state keys.
trajectory_format = None
import_key = None
reward_field = None
task_field = None
sibling_field = None
goal_field = None
missing_reward = None
success_at = 1.0
import_max_steps = None

# %%
config = Config.from_flat(gather_parameters(globals(), before, own=OWN_PARAMETERS))
lab = LabSettings.of(globals())
recorded = gather_recorded(config, lab, run_id)
print(recorded.told)

# %% [markdown]
# ## The same trajectories under every estimator
#
# Siblings of one task, a row a step, a column an estimator: the number is what the loss would use, blue
# above 0, vermilion below, each column on its own scale. The last column is the truth where it can be
# computed: A = Q − V of the policy that played, with as many steps left as there were.
#
# Look at a failure: estimators without states (`grpo`, `rloo`) blame all of its steps alike, although
# some of them were right. Look at a detour in a success: who praises it? `gae` has the true V as its critic
# and still differs from the truth: what came after is one draw of many.

# %%
side_by_side(recorded, config.credit, lab.task, lab.num_shown)

# %% [markdown]
# ## How far from the truth
#
# One task proves nothing. Here every estimator gets the same batches of played trajectories, and is held
# against the exact truth; points have 95 % intervals over the batches.
#
# *Correlation* and *sign agreement* are of steps: a coin's sign agrees in one half. *Top-decile precision*
# asks whether the tenth of steps that is said to matter most does. *Gradient cosine* compares what
# the whole batch teaches with the true gradient. *Bias* is what more data would not mend, *spread* what it
# would, both as shares of the size of the true A.

# %%
result = measure(lab.cell(config), config.credit)
widgets.show(fidelity_figure(result))
fidelity_table(result)

# %% [markdown]
# The same measures in many more settings are recorded by `benchmarks/credit_fidelity.py`; where its results
# are in this checkout, they are drawn here.

# %%
show_recorded()

# %% [markdown]
# ## Where lambda and gamma matter
#
# Lambda decides how far ahead GAGPO listens. At 0 a step gets its td error, r + γ V(s') − V(s): only where
# it led. At 1 it gets R − V(s): everything that followed. Rings and crosses are R − V(s) and the td
# error, computed apart: the curves of 1 and 0 run through them. Where the curves part, later steps decide
# what this one gets.

# %%
widgets.show(lambda_curves(recorded, config.credit, lab.task))

# %% [markdown]
# Gamma decides what a detour costs. At 1 it costs nothing, and V is the share of a state's visits that were
# followed by success, times the reward; the lower, the more of the credit is for being quick.

# %%
widgets.show(gamma_curves(recorded, config.credit, lab.task))

# %% [markdown]
# Which pair is right depends on the question. Below, new siblings are played, and GAGPO is held against the
# truth for each pair: step by step, as the direction of a whole update, and against the update that
# would raise the plain success rate. Other worlds and other numbers of siblings have other answers.

# %%
agreement_grids(lab.cell(config), config.credit)

# %% [markdown]
# ## State keys
#
# Values are made of steps that meet in one state, and the key says what one state is. Too fine, and steps
# stay alone and compare with nobody (*splitting*). Too coarse, and steps are compared that were in different
# situations (*aliasing*). Both are counted against the environment's own state, where that was recorded.

# %%
compare_keys(recorded, config.credit, lab.compared_keys)

# %% [markdown]
# ## Your own trajectories
#
# Set `trajectories` to a file that another project recorded; without it, this is a small invented example
# in the chat format of tau-bench, in which members of a tool library talk to its desk. First: what was
# read, what was left out and why, and which tasks leave something to compare.

# %%
recordings = read_recordings(lab)
report_table(recordings)

# %%
overview_table(recordings)

# %% [markdown]
# What makes two states of a conversation equal is for you to choose (`import_key`). *Shared* steps are in a
# state in which a sibling acts too, *beyond start* those not in the state that their attempt began in,
# *repeated* those in a state where the same attempt acted before. *Groups with penalties alone* differ in
# nothing but penalties for invalid actions, which normalisation blows up to full size.

# %%
keys_on_offer(recordings, config.credit)

# %% [markdown]
# A loss that is a mean over actions or tokens hears long trajectories more than short ones. Tokens are
# weighed where they were recorded.

# %%
loss_weights(recordings, config.credit)

# %% [markdown]
# Two siblings step by step, a success and a failure where there are both. `V(s)` is the mean return-to-go of
# all sibling steps in that state (*anchor size* of them), the td error is r + γ V(s') − V(s), *normalized*
# what the loss uses.

# %%
credited_siblings(recordings, config.credit)

# %% [markdown]
# ## Made with

# %%
widgets.versions_table()
