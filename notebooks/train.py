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
# # Train an agent, and see what it learns from
#
# After this notebook you will have a trained agent in a run folder, its learning curves on training
# and on unseen tasks, and a few trajectories in which every step shows the arithmetic of its credit.
#
# As it stands it is a smoke run: **under a minute on two cores, without a GPU**. The agent imitates
# a planner for a moment, then trains for three iterations: enough to look at, too short to learn
# much. A real run takes its settings from a recipe (minutes):
#
# ```bash
# papermill notebooks/train.ipynb runs/mine/train.ipynb -f recipes/household.yaml -p run_id mine -p seed 1
# ```
#
# The same command again resumes a run that was cut off, and does nothing for one that is complete.

# %%
import widgets
from gagpo import Config
from gagpo.launch import default_runs_dir, gather_parameters, run_and_follow
from gagpo.store import open_run

before = set(globals())

# %% [markdown]
# ## Settings
#
# Each is explained where it is defined, in `gagpo/config.py`; `papermill -p name value` sets it.

# %% tags=["parameters"]
# The run: an empty run_id takes one with the time in it; runs_dir None is the checkout's runs/.
run_id = ""
runs_dir = None
iterations = 3
seed = 0
checkpoint_every = 1
keep_checkpoints = 2
tensorboard = False
num_threads = 1

# The world. Relative paths of games start at this notebook's working directory.
env = "household"
games = None
unseen_games = None
task_types = []
max_steps = 20
success_reward = 10.0
score_reward = 0.0
full_view = False
env_time_limit_s = 0.0

# Dials of generated houses
num_receptacles = 4
num_objects = 3
num_rooms = 1
num_spares = None
min_plan_steps = 0
max_plan_steps = None

# The shop (env webshop): WebShop's data folder, else a generated catalogue
catalogue = None
catalogue_index = None
num_products = 0
shop_seed = 0
human_goals = True
page_text = "text"
suggest_searches = True
partial_reward = False

# Rollout
num_tasks = 4
num_siblings = 4
temperature = 1.0
prompt = "compact"
history = 8
max_prompt_tokens = 512
max_action_tokens = 16
masked = True

# Credit
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

# Loss
ratio = "sequence"
loss_mean = "action"
clip_low = 0.2
clip_high = 0.2
dual_clip = None
kl = "none"
kl_coef = 0.01
entropy_coef = 0.0

# Optimisation
learning_rate = 3e-4
lr_schedule = "constant"
lr_warmup = 0
weight_decay = 0.0
max_grad_norm = 1.0
num_minibatches = 2
num_epochs = 1
micro_batch_tokens = 4096

# Critic (estimator gae)
critic_learning_rate = 1e-3
critic_epochs = 2
critic_minibatches = 4
critic_warmup = 0

# Policy
model = "tiny"
hidden_size = 48
num_layers = 2
num_heads = 2
lora_rank = 0
dtype = "float32"
device = "cpu"

# Warm start
warm_updates = 60
warm_episodes = 150
warm_batch = 32
warm_learning_rate = 2e-3
expert_share = 0.8

# Evaluation on unseen tasks
eval_tasks = 8
final_eval_tasks = 16
eval_every = 1
eval_temperature = 0.4

# %%
config = Config.from_flat(gather_parameters(globals(), before))
run = open_run(runs_dir or default_runs_dir(), config.run.run_id)
print(f"run {run.run_id} in {run.path}")

# %% [markdown]
# ## Training
#
# It runs in a process of its own, which this notebook follows through the run folder. Interrupt the
# cell to stop it: it saves, and the same settings resume it. *singletons* are steps whose state no
# sibling shared, so that they bring no comparison; *no signal* are groups in which every sibling did
# equally well.

# %%
status = run_and_follow(run, config, widgets.ProgressLine(live=True))
print(status)

# %% [markdown]
# ## Does it learn?
#
# Success on unseen tasks is what counts: these houses cannot occur in training. Training success is
# measured at the sampling temperature, unseen success at `eval_temperature`. Episodes get shorter as
# detours disappear, also after success has levelled off.

# %%
widgets.show(widgets.learning_curves(run))

# %% [markdown]
# ## What it learns from
#
# The advantages after normalisation. A wide interquartile range with a large share above 1 means that
# single updates are driven by extremes. Where *groups without signal* approach 100 %, tasks are too easy
# or too hard; where *singletons* do, siblings no longer meet and GAGPO has nothing to compare.

# %%
widgets.show(widgets.advantage_spread(run))

# %% [markdown]
# ## Is the update healthy?
#
# The ratio leaves 1 only through several updates an iteration; a clip fraction above a fifth says that
# these go too far. Entropy that falls to 0 early ends exploration.

# %%
widgets.show(widgets.training_health(run))
widgets.metrics_table(run)

# %% [markdown]
# ## Where the time goes

# %%
widgets.show(widgets.phase_times(run))

# %% [markdown]
# ## Two trajectories, step by step
#
# A success and a failure of one task where there are both. `V(s)` is the mean return-to-go of all
# sibling steps in that state (*anchor size* of them), the td error is r + γ V(s') − V(s), the advantage
# its λ-weighted sum, *normalized* what the loss used.

# %%
widgets.example_trajectories(run)

# %% [markdown]
# ## Made with

# %%
widgets.versions_table(run)
