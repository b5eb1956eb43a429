"""An EAGLE-3 head for a small Llama target, trained where the target was trained, in two to three minutes on one GPU.

The layout is what SGLang loads as `LlamaForCausalLMEagle3` (0.5.16 `models/llama_eagle3.py`): hidden states of three
target layers fused by `fc`; one decoder layer whose attention sees the token's embedding beside them; an output head of
its own over a reduced vocabulary with its map `d2t`. The embedding is the target's. At depth k the input is the layer's
own output of depth k - 1 before the last norm (`norm_output` is off), with the token that was drafted there.

Trained on the target's own greedy continuations and on its corpus, with the head's own outputs fed back for several
depths (training-time test, EAGLE-3, arXiv:2503.01840). Needs torch, transformers, tokenizers and safetensors, and
nothing of this project, so that the file travels alone.

    python eagle3.py --target /tmp/models/target --small /tmp/models/target-small --prompts /tmp/models/prompts.json \\
        --out /tmp/models/eagle3
"""

from __future__ import annotations

import argparse
import glob
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own habit

CAPTURED = (0, 1, 3)
"""Layers, from 0, whose outputs are fused: a low, a middle and the last one of the four that are trained. A target padded
with identity layers has the same hidden states behind its fourth layer as at its end."""
ROOTS = ("/opt/torch/.venv/lib/python3.12/site-packages", "/usr/lib/python3.12")
HELD_FILES = 600
"""The target never saw these, nor does the head: prompts come from them."""


@dataclass(frozen=True)
class Size:
    """Of a head.

    Attributes:
        hidden: Of the target, which lends its embedding.
        heads: Query heads, `kv_heads` key heads, `head_dim` numbers each.
        inner: Of the MLP.
        vocabulary: Of the target; `draft_vocabulary` of the head.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    draft_vocabulary: int
    theta: float = 10000.0
    eps: float = 1e-6


class Norm(nn.Module):
    """Root-mean-square norm, in single precision."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, value: Any) -> Any:
        """Normed along the last dimension, in the type it came."""
        wide = value.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight.float()).to(value.dtype)


@dataclass
class Keys:
    """Keys and values so far: of the pass over the text, then of each further depth, one for each chain."""

    first: tuple[Any, Any] | None = None
    later: list[tuple[Any, Any]] = field(default_factory=list)


class Head(nn.Module):
    """The draft model. Chain `t` begins at position `t` of a text; all chains of a text are unrolled at once."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        hidden, queries, keys = size.hidden, size.heads * size.head_dim, size.kv_heads * size.head_dim
        self.fc = nn.Linear(3 * hidden, hidden, bias=False)
        self.input_layernorm, self.hidden_norm = Norm(hidden, size.eps), Norm(hidden, size.eps)
        self.post_attention_layernorm, self.norm = Norm(hidden, size.eps), Norm(hidden, size.eps)
        self.q_proj = nn.Linear(2 * hidden, queries, bias=False)
        self.k_proj = nn.Linear(2 * hidden, keys, bias=False)
        self.v_proj = nn.Linear(2 * hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, hidden, bias=False)
        self.gate_proj = nn.Linear(hidden, size.inner, bias=False)
        self.up_proj = nn.Linear(hidden, size.inner, bias=False)
        self.down_proj = nn.Linear(size.inner, hidden, bias=False)
        self.lm_head = nn.Linear(hidden, size.draft_vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)

    def step(self, hidden: Any, embeds: Any, depth: int, keys: Keys) -> tuple[Any, Any]:
        """One depth of all chains.

        Args:
            hidden: Fused target states at depth 1, else what the depth before gave; (batch, chains, hidden).
            embeds: Of the token that follows, same shape.
            depth: From 1.
            keys: Of the depths before; this one's are added.

        Returns:
            The state to feed back and the logits over the draft vocabulary.
        """
        joined = torch.cat([self.input_layernorm(embeds), self.hidden_norm(hidden)], dim=-1)
        state = hidden + self.o_proj(self._attention(joined, depth, keys))
        inner = self.post_attention_layernorm(state)
        state = state + self.down_proj(F.silu(self.gate_proj(inner)) * self.up_proj(inner))
        return state, self.lm_head(self.norm(state))

    def _attention(self, joined: Any, depth: int, keys: Keys) -> Any:
        size = self.size
        batch, chains, _ = joined.shape
        # Chain t at depth k stands at position t + k - 1, as SGLang counts: a token has the position of the state it
        # is paired with.
        places = torch.arange(chains, device=joined.device) + depth - 1
        query = rotate(self._split(self.q_proj(joined), size.heads), places, size.theta)
        key = rotate(self._split(self.k_proj(joined), size.kv_heads), places, size.theta)
        value = self._split(self.v_proj(joined), size.kv_heads)
        shared = size.heads // size.kv_heads
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        if depth == 1:
            keys.first = (key, value)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            keys.later.append((key, value))
            assert keys.first is not None
            scale = 1 / math.sqrt(size.head_dim)
            past = (query @ keys.first[0].transpose(-1, -2)) * scale
            past = past.masked_fill(~causal(chains, joined.device), float("-inf"))
            # Beyond the text a chain sees its own drafts only.
            own = [(query * theirs).sum(-1, keepdim=True) * scale for theirs, _ in keys.later]
            weights = torch.cat([past, *own], dim=-1).float().softmax(-1).to(query.dtype)
            mixed = weights[..., :chains] @ keys.first[1]
            for place, (_, theirs) in enumerate(keys.later):
                mixed = mixed + weights[..., chains + place : chains + place + 1] * theirs
        return mixed.transpose(1, 2).reshape(batch, chains, -1)

    def _split(self, value: Any, heads: int) -> Any:
        batch, chains, _ = value.shape
        return value.view(batch, chains, heads, self.size.head_dim).transpose(1, 2)


def unroll(head: Head, features: Any, embedding: Any, tokens: Any, depths: int) -> Iterator[Any]:
    """Logits of depths 1, 2, …: chain t at depth k predicts token t + k + 1, with the tokens before it given.

    Args:
        head: The draft model.
        features: The target's three states behind token t, side by side; (batch, chains, 3 x hidden).
        embedding: The target's, (vocabulary, hidden).
        tokens: (batch, at least chains + depths).
        depths: How many.
    """
    chains = features.shape[1]
    keys, hidden = Keys(), head.fc(features)
    for depth in range(1, depths + 1):
        embeds = F.embedding(tokens[:, depth : depth + chains], embedding).to(hidden.dtype)
        hidden, logits = head.step(hidden, embeds, depth, keys)
        yield logits


def rotate(value: Any, places: Any, theta: float) -> Any:
    """Rotary embedding over halves, as Llama has it; (batch, heads, places, head_dim)."""
    half = value.shape[-1] // 2
    rate = theta ** (-torch.arange(half, device=value.device, dtype=torch.float32) / half)
    angle = places.float()[:, None] * rate
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    turned = torch.cat([-value[..., half:], value[..., :half]], -1)
    return (value.float() * cos + turned.float() * sin).to(value.dtype)


def causal(count: int, device: Any) -> Any:
    """Lower triangle of truths."""
    return torch.ones(count, count, dtype=torch.bool, device=device).tril()


@torch.no_grad()
def states_of(target: Any, tokens: Any) -> tuple[Any, Any]:
    """The target's three states behind each token, side by side, and its logits."""
    output = target(input_ids=tokens, output_hidden_states=True, use_cache=False)
    # hidden_states[i] goes into layer i. The last one has been normed, so the last layer's own is caught by a hook.
    caught = target.captured_last
    states = [output.hidden_states[layer + 1] for layer in CAPTURED[:-1]]
    return torch.cat([*states, caught], -1), output.logits


def catch_last(target: Any, layer: int) -> None:
    """Keep what a layer of the target gives, before the norm that follows the last one."""

    def keep(_module: Any, _args: Any, output: Any) -> None:
        target.captured_last = output[0] if isinstance(output, tuple) else output

    target.model.layers[layer].register_forward_hook(keep)


@torch.no_grad()
def continued(target: Any, prompts: Any, length: int) -> Any:
    """Prompts with the target's own greedy answers; (batch, prompt + length)."""
    from transformers import DynamicCache

    cache, given, parts = DynamicCache(), prompts, [prompts]
    for _ in range(length):
        output = target(input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1)
        given = output.logits[:, -1:].argmax(-1)
        parts.append(given)
    return torch.cat(parts, 1)


def accept_length(right: Any, steps: int) -> float:
    """Tokens per verify pass of a chain: walk through each text, a pass emits what was right and one more.

    Args:
        right: (texts, chains, depths) truths: whether chain t drafts token t + k + 1 rightly, all before it given.
        steps: Depth of the chain.
    """
    tokens = passes = 0
    good = right[..., :steps].long().cumprod(-1).sum(-1).tolist()
    for row in good:
        place = 0
        while place < len(row):
            emitted = row[place] + 1
            tokens, passes, place = tokens + emitted, passes + 1, place + emitted
    return tokens / passes


def tokens_of_corpus(tokenizer: Any, roots: Sequence[str], most_bytes: int) -> list[int]:
    """Tokens of files that the target was trained on, in the order of its own training."""
    files = sorted(name for root in roots for name in glob.glob(root + "/**/*.py", recursive=True))  # noqa: PTH207
    random.Random(0).shuffle(files)
    texts: list[str] = []
    size = 0
    for name in files:
        try:
            text = Path(name).read_text(encoding="utf8")
        except (OSError, UnicodeDecodeError):
            continue
        if 500 < len(text) < 200_000:
            texts.append(text)
            size += len(text) if len(texts) > HELD_FILES else 0
        if size > most_bytes:
            break
    ids: list[int] = []
    for encoded in tokenizer.encode_batch(texts[HELD_FILES:]):
        ids += [*encoded.ids, 1]
    return ids


def main(argv: Sequence[str] | None = None) -> int:
    """Train a head, measure it on held-out prompts, save it in SGLang's layout."""
    args = arguments(argv)
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    began = time.monotonic()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    target = LlamaForCausalLM.from_pretrained(args.small, dtype=kind).to(device).eval()
    catch_last(target, CAPTURED[-1])
    config = json.loads((Path(args.target) / "config.json").read_text())
    tokenizer = Tokenizer.from_file(str(Path(args.target) / "tokenizer.json"))
    corpus = torch.tensor(tokens_of_corpus(tokenizer, args.roots, args.bytes), dtype=torch.long, device=device)
    say(f"{len(corpus) / 1e6:.1f} M tokens of corpus, {time.monotonic() - began:.0f} s")

    window = args.context + args.depths
    if len(corpus) <= window:
        raise SystemExit(
            f"A corpus of more than {window} tokens is needed behind the first {HELD_FILES} files of `--roots`, but it has "
            f"{len(corpus)}. Name folders with more Python files."
        )
    asked = held_out(tokenizer, args, device)
    greedy = own_answers(target, corpus, args, window)
    say(f"{greedy.numel() / 1e6:.1f} M tokens of the target's own, {time.monotonic() - began:.0f} s")
    kept = most_frequent(torch.cat([greedy.flatten(), corpus]), config["vocab_size"], args.draft_vocabulary)
    size = Size(
        hidden=config["hidden_size"], heads=config["num_attention_heads"], kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"], inner=args.inner, vocabulary=config["vocab_size"], draft_vocabulary=len(kept),
        theta=float((config.get("rope_parameters") or {}).get("rope_theta") or config.get("rope_theta") or 10000.0),
        eps=config["rms_norm_eps"],
    )  # fmt: skip
    head = Head(size).to(device)
    begin_from_target(head, target, kept)
    losses = fit(head, target, greedy, corpus, kept, args, began)
    save(head, kept, config, Path(args.out))  # first: a head that could not be measured still serves
    measured = evaluate(head, target, asked, kept, args)
    report = {
        "steps": len(losses), "asked_steps": args.steps, "seed": args.seed, "depths": args.depths,
        "loss": [round(value, 4) for value in losses[:: max(1, len(losses) // 20)]],
        "last_loss": round(sum(losses[-20:]) / len(losses[-20:]), 4), "draft_vocabulary": len(kept),
        "captured_layers": list(CAPTURED), "seconds": round(time.monotonic() - began), **measured,
    }  # fmt: skip
    (Path(args.out) / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    say(json.dumps(report))
    say("done eagle3")
    return 0


def own_answers(target: Any, corpus: Any, args: argparse.Namespace, window: int) -> Any:
    """Texts of `window` tokens: a piece of corpus, then the target's own greedy continuation; (texts, window)."""
    generator = torch.Generator(device="cpu").manual_seed(args.seed)
    parts = []
    for _ in range(args.rounds):
        starts = torch.randint(0, len(corpus) - args.prompt - 1, (args.batch_of_answers,), generator=generator)
        prompts = torch.stack([corpus[start : start + args.prompt] for start in starts.tolist()])
        parts.append(continued(target, prompts, window - args.prompt))
    return torch.cat(parts)


def most_frequent(tokens: Any, vocabulary: int, count: int) -> Any:
    """Ids of the most frequent tokens, ascending."""
    counts = torch.bincount(tokens, minlength=vocabulary)
    return counts.argsort(descending=True)[:count].sort().values


def begin_from_target(head: Head, target: Any, kept: Any) -> None:
    """Start where the target ends: its last state, its norm, its head over the kept tokens."""
    hidden = head.size.hidden
    with torch.no_grad():
        head.fc.weight[:, 2 * hidden :] += torch.eye(hidden, device=head.fc.weight.device)
        head.norm.weight.copy_(target.model.norm.weight)
        head.lm_head.weight.copy_(target.lm_head.weight[kept])


def fit(
    head: Head, target: Any, greedy: Any, corpus: Any, kept: Any, args: argparse.Namespace, began: float
) -> list[float]:
    """Train; the loss of each step. Ends at `args.steps`, or early at `args.most_s` with the rate decayed all the same."""
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.01, fused=greedy.device.type == "cuda"
    )
    generator = torch.Generator(device="cpu").manual_seed(args.seed + 1)
    window = args.context + args.depths
    losses: list[float] = []
    pending: list[Any] = []
    first = time.monotonic()
    for step in range(args.steps):
        spent = time.monotonic() - first
        done = max(step / args.steps, spent / args.most_s)
        if done >= 1:
            say(f"the time of {args.most_s:.0f} s is up at step {step} of {args.steps}")
            break
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 40) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))
        own = round(args.batch * args.own_share)
        rows = torch.randint(0, len(greedy), (own,), generator=generator).to(greedy.device)
        starts = torch.randint(0, len(corpus) - window, (args.batch - own,), generator=generator).tolist()
        tokens = torch.cat([greedy[rows], *(corpus[None, start : start + window] for start in starts)])
        loss = loss_of(head, target, tokens, kept, args)
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        pending.append(loss.detach())
        if step % 50 == 49 or step == args.steps - 1:
            losses += torch.stack(pending).tolist()
            pending = []
            say(f"step {step + 1}: loss {sum(losses[-50:]) / len(losses[-50:]):.4f}, {time.monotonic() - began:.0f} s")
    return losses + [value.item() for value in pending]


def loss_of(head: Head, target: Any, tokens: Any, kept: Any, args: argparse.Namespace) -> Any:
    """Cross-entropy against the target's own distribution over the kept tokens, deeper steps weighted less."""
    features, logits = states_of(target, tokens)
    chains = args.context
    device = tokens.device.type
    total: Any = 0.0
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        steps = unroll(head, features[:, :chains], target.model.embed_tokens.weight, tokens, args.depths)
        for depth, drafted in enumerate(steps, 1):
            wanted = logits[:, depth : depth + chains]
            # Where the target's favourite is not in the vocabulary, there is nothing to be learned.
            known = torch.isin(wanted.argmax(-1), kept)
            soft = wanted[..., kept].float().softmax(-1)
            each = -(soft * drafted.float().log_softmax(-1)).sum(-1)
            total = total + 0.8 ** (depth - 1) * (each * known).sum() / known.sum().clamp(min=1)
    return total / sum(0.8**depth for depth in range(args.depths))


def held_out(tokenizer: Any, args: argparse.Namespace, device: str) -> Any:
    """Held-out prompts, cut to one length; (prompts, args.prompt)."""
    rows = json.loads(Path(args.prompts).read_text())
    encoded = [tokenizer.encode(row["conversations"][0]["value"]).ids for row in rows]
    fit_in = [ids[-args.prompt :] for ids in encoded if len(ids) >= args.prompt]
    if not fit_in:
        raise SystemExit(
            f"Held-out prompts of {args.prompt} tokens or more are needed, but the longest of `--prompts` has "
            f"{max(map(len, encoded), default=0)}. Give the uncut prompts, or a smaller `--prompt`."
        )
    return torch.tensor(fit_in[: args.held], dtype=torch.long, device=device)


@torch.no_grad()
def evaluate(head: Head, target: Any, prompts: Any, kept: Any, args: argparse.Namespace) -> dict[str, Any]:
    """How often each depth is right on the target's own answers to held-out prompts, and accept lengths of chains."""
    answer = args.answer
    tokens = continued(target, prompts, answer + args.depths)
    rights = []
    for part in tokens.split(32):
        features, _ = states_of(target, part)
        chains = part.shape[1] - args.depths - 1
        device = part.device.type
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            steps = list(unroll(head, features[:, :chains], target.model.embed_tokens.weight, part, args.depths))
        drafted = [kept[logits.argmax(-1)] for logits in steps]
        truth = [part[:, depth + 1 : depth + 1 + chains] for depth in range(1, args.depths + 1)]
        right = torch.stack([ours == theirs for ours, theirs in zip(drafted, truth, strict=True)], -1)
        # From the last token of the prompt on: what comes before is not the target's own.
        rights.append(right[:, prompts.shape[1] - 1 :])
    right = torch.cat(rights).cpu()
    return {
        "held_out_prompts": len(prompts),
        "right_by_depth": [round(float(right[..., k].float().mean()), 4) for k in range(args.depths)],
        "accept_length": {str(steps): round(accept_length(right, steps), 4) for steps in range(1, args.depths + 1)},
    }


def save(head: Head, kept: Any, target: dict[str, Any], folder: Path) -> None:
    """Write weights and configuration as `LlamaForCausalLMEagle3` reads them."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    weights = {}
    for name, value in head.state_dict().items():
        part = name.split(".")[0]
        if part in attention:
            name = f"midlayer.self_attn.{name}"
        elif part in ("gate_proj", "up_proj", "down_proj"):
            name = f"midlayer.mlp.{name}"
        elif part in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
            name = f"midlayer.{name}"
        weights[name] = value.to(torch.bfloat16).contiguous().cpu()
    ids = kept.cpu()
    weights["d2t"] = (ids - torch.arange(len(ids))).contiguous()
    member = torch.zeros(head.size.vocabulary, dtype=torch.bool)
    member[ids] = True
    weights["t2d"] = member
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = target | {
        "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "intermediate_size": head.size.inner,
        "draft_vocab_size": head.size.draft_vocabulary, "dtype": "bfloat16", "tie_word_embeddings": False,
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": list(CAPTURED)},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="/tmp/models/target", help="as served: its configuration and tokenizer")
    parser.add_argument("--small", default="/tmp/models/target-small", help="the same without identity layers")
    parser.add_argument("--prompts", default="/tmp/models/prompts.json")
    parser.add_argument("--out", default="/tmp/models/eagle3")
    parser.add_argument("--roots", nargs="+", default=list(ROOTS))
    parser.add_argument("--bytes", type=int, default=30_000_000, help="of corpus")
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--most-s", type=float, default=180.0, help="for the steps; then it ends early, decayed")
    parser.add_argument("--depths", type=int, default=6)
    parser.add_argument("--context", type=int, default=448, help="chains of a text")
    parser.add_argument("--prompt", type=int, default=96, help="tokens of corpus before the target's own")
    parser.add_argument("--answer", type=int, default=192, help="of the evaluation")
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--own-share", type=float, default=0.7, help="of a batch that is the target's own text")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch-of-answers", type=int, default=768)
    parser.add_argument("--held", type=int, default=96, help="held-out prompts")
    parser.add_argument("--inner", type=int, default=4096)
    parser.add_argument("--draft-vocabulary", type=int, default=4096)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
