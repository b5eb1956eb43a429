"""Train the two models of `spaces/h200-lab.yaml` and write its prompts: about five minutes on an H200.

A small code LM (the target) and a smaller one (the draft) learn the Python sources found in this
interpreter's own library folders. The target is padded with identity layers (their output
projections are zero), which keeps its outputs and gives it the memory traffic and kernel count
of a model of several billion parameters. Steps and seeds are fixed: a second training gives
nearly the same models, not the same bits, so compare launches on one training.

Needs torch, transformers and tokenizers; run it outside SGLang's environment if that pins others.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 8192
HELD_OUT = 600
START = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - START:5.0f} s] {text}", flush=True)


def read_sources(roots: Sequence[Path], *, max_bytes: int) -> list[str]:
    """Python files of a middling size, in an order that depends on their names alone."""
    files = sorted({path for root in roots for path in root.rglob("*.py")})
    random.Random(0).shuffle(files)
    texts, total = [], 0
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if 500 < len(text) < 200_000:
            texts.append(text)
            total += len(text)
        if total > max_bytes:
            break
    return texts


def train_tokenizer(texts: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def llama(*, hidden: int, inner: int, layers: int, heads: int, kv_heads: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        rope_theta=10000.0,
        bos_token_id=0,
        eos_token_id=1,
        torch_dtype="bfloat16",
    )


def fit(config: LlamaConfig, data: torch.Tensor, *, steps: int, batch: int, length: int, rate: float) -> Any:
    """A fixed number of steps from fixed seeds, cosine schedule with a hundred steps of warm-up."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(data.device)
    fused = data.device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.05, fused=fused)
    loss = torch.tensor(math.nan)
    for step in range(steps):
        decay = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 100) * decay
        starts = torch.randint(0, len(data) - length - 1, (batch,))
        tokens = torch.stack([data[start : start + length] for start in starts.tolist()]).long()
        with torch.autocast(data.device.type, torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    say(f"{config.num_hidden_layers} layers of {config.hidden_size}: {steps} steps, loss {loss.item():.3f}")
    return model.to(torch.bfloat16)


def pad(model: Any, config: LlamaConfig) -> Any:
    """The same function in more layers: those added write nothing into the residual stream."""
    trained = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    deep = LlamaForCausalLM(config).to(torch.bfloat16)
    state = deep.state_dict()
    for name, tensor in state.items():
        if name in trained:
            tensor.copy_(trained[name])
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
    deep.load_state_dict(state)
    return deep


def save(model: Any, tokenizer: Tokenizer, folder: Path) -> None:
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["LlamaForCausalLM"]}, indent=1))


def prompts(held_out: Sequence[str]) -> list[dict[str, Any]]:
    """ShareGPT-shaped: the code before a third of each held-out file, to be gone on with."""
    rows = []
    for text in held_out:
        cut = len(text) // 3
        turns = [("human", text[max(0, cut - 1200) : cut]), ("gpt", text[cut : cut + 900])]
        rows.append({"conversations": [{"from": who, "value": value} for who, value in turns]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("models/h200-lab"))
    own = sysconfig.get_paths()
    parser.add_argument("--roots", type=Path, nargs="+", default=[Path(own["purelib"]), Path(own["stdlib"])])
    parser.add_argument("--bytes", type=int, default=160_000_000)
    parser.add_argument("--target-steps", type=int, default=2200)
    parser.add_argument("--draft-steps", type=int, default=4000)
    parser.add_argument("--layers", type=int, default=48, help="of the padded target; 4 are trained")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    texts = read_sources(options.roots, max_bytes=options.bytes)
    held_out, train = texts[:HELD_OUT], texts[HELD_OUT:]
    tokenizer = train_tokenizer(train[:4000])
    ids = [token for encoding in tokenizer.encode_batch(train) for token in (*encoding.ids, 1)]
    data = torch.tensor(ids, dtype=torch.int32, device="cuda" if torch.cuda.is_available() else "cpu")
    say(f"{len(texts)} files, {len(ids) / 1e6:.1f} M tokens")
    (options.out / "prompts.json").write_text(json.dumps(prompts(held_out)))

    shape = {"hidden": 2048, "inner": 8192, "heads": 32, "kv_heads": 8}
    target = fit(llama(layers=4, **shape), data, steps=options.target_steps, batch=32, length=512, rate=6e-4)
    save(pad(target, llama(layers=options.layers, **shape)), tokenizer, options.out / "target")
    del target
    draft = llama(hidden=512, inner=1536, layers=2, heads=8, kv_heads=4)
    save(fit(draft, data, steps=options.draft_steps, batch=64, length=512, rate=1e-3), tokenizer, options.out / "draft")
    say("done")


if __name__ == "__main__":
    main()
