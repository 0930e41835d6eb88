"""The policy: a causal language model that acts, and that scores actions with gradients.

Temperature and mask are the same on both sides: an action is scored under the distribution that
it was drawn from. Any Hugging Face model id or folder will do; "tiny" needs no download.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel
from transformers.generation import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from gagpo.batch import Batch, Row, collate, micro_batches
from gagpo.config import Config
from gagpo.envs.base import World
from gagpo.masking import CommandTrie
from gagpo.prompts import CUT_OFF, PROMPTS, check_spelling
from gagpo.rollout import Action, Turn, TurnRefused
from gagpo.table import Trajectory
from gagpo.tiny import tiny_model, tiny_tokenizer


class Policy:
    """A model with its tokenizer. Implements `gagpo.rollout.Actor`."""

    def __init__(self, model: torch.nn.Module, tokenizer, config: Config) -> None:
        if tokenizer.eos_token_id is None:
            raise ValueError(f"model: the tokenizer of {config.policy.model!r} has no end-of-sequence token")
        self.model = model
        self.tokenizer = tokenizer
        self.end_id: int = tokenizer.eos_token_id
        self.pad_id: int = self.end_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.prompt = PROMPTS[config.rollout.prompt]
        self.masked = config.rollout.masked
        self.max_action_tokens = config.rollout.max_action_tokens
        self.temperature = config.rollout.temperature
        # Most prompts come with the command set of an earlier one (siblings, revisited states).
        self._trie = lru_cache(maxsize=16384)(self._make_trie)
        check_spelling(config.rollout.prompt, tokenizer)

    @classmethod
    def build(cls, config: Config, world: World) -> Policy:
        """The policy that `config.policy` names, with fresh or downloaded weights."""
        settings = config.policy
        if settings.model == "tiny":
            tokenizer = tiny_tokenizer(world.words())
            model = tiny_model(tokenizer, settings, config.run.seed)
        else:
            tokenizer = AutoTokenizer.from_pretrained(settings.model)
            model = AutoModelForCausalLM.from_pretrained(settings.model)
        # A model's own generation_config may hold top_p, top_k or penalties, which would bias
        # every importance ratio: only what `act` asks for applies.
        model.generation_config = GenerationConfig()
        model = model.to(device=settings.device, dtype=getattr(torch, settings.dtype))
        if settings.lora_rank:
            model = _with_lora(model, settings.lora_rank, config.run.seed)
        return cls(model.train(False), tokenizer, config)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def base(self) -> PreTrainedModel:
        """The causal language model itself, with the adapters in it where there are some; its
        `base_model` is the trunk, which ends in hidden states."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

    def trainable(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Name and parameter of everything that training changes."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    def frozen_copy(self) -> Policy:
        """A copy that training does not change: the reference policy."""
        twin = copy.copy(self)
        twin.model = copy.deepcopy(self.model).requires_grad_(False)
        return twin

    def save_pretrained(self, folder: Path) -> None:
        """A Hugging Face folder with weights (or adapters) and tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def encode(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of each prompt, through the chat template where the tokenizer has one."""
        if self.tokenizer.chat_template:
            prompts = [
                self.tokenizer.apply_chat_template(
                    [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
                )
                for prompt in prompts
            ]
            # The template wrote the special tokens that the model expects.
            return [tuple(ids) for ids in self.tokenizer(prompts, add_special_tokens=False)["input_ids"]]
        return [tuple(ids) for ids in self.tokenizer(list(prompts))["input_ids"]]

    def tries(self, turns: Sequence[Turn]) -> list[CommandTrie]:
        """The commands of each turn as tokens; TurnRefused for those too long or not distinct."""
        found = []
        for index, turn in enumerate(turns):
            try:
                found.append(self._trie(turn.goal, turn.admissible))
            except ValueError as error:
                raise TurnRefused(index, str(error)) from error
        return found

    @torch.no_grad()
    def act(self, turns: Sequence[Turn], temperature: float, seed: Sequence[int]) -> list[Action]:
        """One batched `generate`. Draws depend on `seed`, weights and prompts alone."""
        prompts = [turn.prompt_ids for turn in turns]
        width = max(map(len, prompts))
        ids = torch.tensor([(self.pad_id,) * (width - len(p)) + p for p in prompts], device=self.device)
        real = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        tries = self.tries(turns) if self.masked else []
        decided = _Decided(tries, width)
        sampler = _Sampler(decided, width, temperature)
        settings = GenerationConfig(
            max_new_tokens=self.max_action_tokens,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=self.end_id,
            pad_token_id=self.pad_id,
        )
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(np.random.SeedSequence(tuple(seed)).generate_state(1, np.uint64)[0] >> 1))
            output = self.model.generate(
                input_ids=ids,
                attention_mask=real,
                generation_config=settings,
                logits_processor=LogitsProcessorList([sampler]),
                stopping_criteria=StoppingCriteriaList([decided] if self.masked else []),
            )
        tokens = output[:, width:].tolist()
        logprobs = sampler.logprobs(output).tolist()
        if not self.masked:
            return [self._answer(*drawn) for drawn in zip(tokens, logprobs, strict=True)]
        return [_command(*d) for d in zip(tokens, logprobs, tries, decided.num_drawn, strict=True)]

    def logprobs(self, batch: Batch, temperature: float | None = None) -> tuple[Tensor, Tensor]:
        """(logprobs, entropy) of the action tokens, both (B, A) float32, in nats, with gradient.

        Under masked decoding both are over the allowed tokens. Padding holds 0.
        """
        hidden = self.base.base_model(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False
        ).last_hidden_state
        # The head only where an action token is predicted: (tokens, vocabulary) is what costs memory.
        rows, columns = batch.action_mask.nonzero(as_tuple=True)
        at = hidden[rows, batch.action_pos[rows, columns]]
        logits = self.base.get_output_embeddings()(at).float() / (temperature or self.temperature)
        chosen = batch.action_ids[rows, columns]
        picked = logits.gather(1, chosen[:, None])[:, 0]
        if batch.allowed_ids is not None:
            allowed = batch.allowed_ids[rows, columns]
            logits = logits.gather(1, allowed.clamp(min=0)).masked_fill(allowed < 0, float("-inf"))
        total = logits.logsumexp(1)
        log_p = logits - total[:, None]
        # exp(-inf) * -inf is NaN, in the gradient too: leave closed tokens out before the product.
        log_p = torch.where(log_p > float("-inf"), log_p, 0.0)
        p = torch.where(logits > float("-inf"), log_p.exp(), 0.0)
        shape = batch.action_mask.shape
        blank = torch.zeros(shape, device=hidden.device)
        return (
            blank.index_put((rows, columns), picked - total),
            blank.index_put((rows, columns), -(p * log_p).sum(1)),
        )

    @torch.no_grad()
    def score(self, rows: Sequence[Row], token_budget: int) -> list[np.ndarray]:
        """Logprobs of each row's action tokens, float32, without gradient, in the rows' order."""
        scored: list[np.ndarray] = [np.empty(0)] * len(rows)
        for indices in micro_batches(rows, token_budget):
            chunk = [rows[i] for i in indices]
            logprobs, _ = self.logprobs(collate(chunk, self.pad_id, self.device))
            for i, row, values in zip(indices, chunk, logprobs.cpu().numpy(), strict=True):
                scored[i] = values[: len(row.action_ids)].copy()
        return scored

    def rows(self, trajectories: Sequence[Trajectory]) -> list[Row]:
        """A row for each step; logprobs, advantages and weights are left blank."""
        return [
            self.row(trajectory.goal, step.admissible, step.prompt_ids, step.action_ids)
            for trajectory in trajectories
            for step in trajectory.steps
        ]

    def row(
        self, goal: str, admissible: tuple[str, ...], prompt_ids: tuple[int, ...], action_ids: tuple[int, ...]
    ) -> Row:
        """The row of one step, with the tokens that were open where decoding is masked."""
        allowed = self._trie(goal, admissible).allowed_along(action_ids) if self.masked else None
        return Row(prompt_ids, action_ids, allowed, advantage=0.0, weight=0.0)

    def command_ids(self, goal: str, command: str) -> tuple[int, ...]:
        """The tokens of a command with the end token: what an action of it looks like."""
        return (*self._written(goal, [command])[0], self.end_id)

    def _written(self, goal: str, commands: Sequence[str]) -> list[list[int]]:
        """Token ids of each command as the policy would answer it, without the end token."""
        texts = [self.prompt.write(goal, command) for command in commands]
        return self.tokenizer(texts, add_special_tokens=False)["input_ids"]

    def _make_trie(self, goal: str, commands: tuple[str, ...]) -> CommandTrie:
        ids = self._written(goal, commands)
        longest = max(map(len, ids)) + 1
        if longest > self.max_action_tokens:
            raise ValueError(
                f"max_action_tokens: {self.max_action_tokens}; the longest admissible command "
                f"needs {longest} tokens"
            )
        return CommandTrie(commands, ids, self.end_id)

    def _answer(self, tokens: list[int], logprobs: list[float]) -> Action:
        """Cut at the end token, which belongs to the action; what follows it is padding."""
        cut_off = self.end_id not in tokens
        length = len(tokens) if cut_off else tokens.index(self.end_id) + 1
        answer = self.tokenizer.decode(tokens[:length], skip_special_tokens=True)
        fault = self.prompt.fault(answer)
        drawn = tuple(tokens[:length]), tuple(logprobs[:length])
        return Action(self.prompt.read(answer), *drawn, cut_off, CUT_OFF if fault and cut_off else fault)


def _command(tokens: list[int], logprobs: list[float], trie: CommandTrie, num_drawn: int) -> Action:
    """The tokens that were drawn, and the rest, of which no other was open: its logprobs are 0."""
    rest = trie.rest(tokens[:num_drawn])
    ids = (*tokens[:num_drawn], *rest)
    return Action(trie.command(ids), ids, (*logprobs[:num_drawn], *[0.0] * len(rest)), cut_off=False)


class _Decided(StoppingCriteria):
    """Ends a row of masked decoding where one command is left: its other tokens need no model."""

    def __init__(self, tries: list[CommandTrie], width: int) -> None:
        self.tries, self.width = tries, width
        self.num_drawn = [0] * len(tries)  # tokens until then; 0 while there is a choice

    def __call__(self, input_ids: Tensor, scores: Tensor, **_) -> Tensor:
        for i, prefix in enumerate(input_ids[:, self.width :].tolist()):
            if not self.num_drawn[i] and self.tries[i].rest(prefix) is not None:
                self.num_drawn[i] = len(prefix)
        return torch.tensor([n > 0 for n in self.num_drawn], device=input_ids.device)


class _Sampler(LogitsProcessor):
    """Applies temperature and mask, and keeps the logprob of every token that was drawn.

    `generate` tells the drawn token only with the next call, so one step's logprobs are held
    back; keeping all logits instead would cost (actions x tokens x vocabulary) of memory.
    """

    def __init__(self, decided: _Decided, width: int, temperature: float) -> None:
        self.decided, self.width, self.temperature = decided, width, temperature
        self.held: Tensor | None = None
        self.drawn: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self._note(input_ids)
        scores = scores.float() / self.temperature
        if self.decided.tries:
            scores = scores + self._closed(input_ids[:, self.width :].tolist(), scores)
        self.held = scores.log_softmax(1)
        return scores

    def _closed(self, prefixes: list[list[int]], scores: Tensor) -> Tensor:
        """0 for the tokens that are open in each row, -inf for the others; 0 for all once it is decided."""
        mask = torch.full(scores.shape, float("-inf"))
        rows: list[int] = []
        open_ids: list[int] = []
        for i, (trie, num) in enumerate(zip(self.decided.tries, self.decided.num_drawn, strict=True)):
            if num:
                mask[i] = 0.0
                continue
            ids = trie.allowed(prefixes[i])
            rows += [i] * len(ids)
            open_ids += ids
        mask[rows, open_ids] = 0.0
        return mask.to(scores.device)

    def _note(self, input_ids: Tensor) -> None:
        if self.held is not None:
            self.drawn.append(self.held.gather(1, input_ids[:, -1:]))

    def logprobs(self, output: Tensor) -> Tensor:
        """(B, new tokens) float32, of the tokens that were drawn; arbitrary after the end token."""
        self._note(output)
        return torch.cat(self.drawn, 1)


def _with_lora(model: PreTrainedModel, rank: int, seed: int) -> torch.nn.Module:
    """Adapters on every linear layer but the head."""
    from peft import LoraConfig, get_peft_model  # seconds to import: only when asked for

    settings = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, settings)
