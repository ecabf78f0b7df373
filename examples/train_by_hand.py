"""Train a Transformer by hand: build, loss, loop, decode, trace. No framework around it.

    python examples/train_by_hand.py

A small encoder-decoder learns to write a row of digits backwards, in less than a minute on one
core. Then its cross-attention is printed: while it writes, it looks from the last digit to the
first.
"""

import torch
import torch.nn.functional as F

import translucid as tl
from translucid.models import GenerationInputs, TransformerConfig

START, END, FIRST, DIGITS = 1, 2, 3, 10  # token ids; 0 would be padding
LENGTH = 8


def make_batch(rows: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Digits as source, the same backwards as target: both (rows, LENGTH)."""
    source = torch.randint(FIRST, FIRST + DIGITS, (rows, LENGTH), generator=generator)
    return source, source.flip(1)


def train(model: torch.nn.Module, steps: int = 600) -> float:
    """Teacher forcing: the decoder reads START + target and predicts target + END."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for step in range(steps):
        source, target = make_batch(64, generator)
        starts, ends = torch.full((64, 1), START), torch.full((64, 1), END)
        logits = model(source, torch.cat([starts, target], dim=1))  # (rows, LENGTH + 1, vocab)
        loss = F.cross_entropy(logits.flatten(0, 1), torch.cat([target, ends], dim=1).flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1:4}  loss {loss.item():.4f}")
    return loss.item()


@torch.no_grad()
def greedy(model: torch.nn.Module, source: torch.Tensor) -> torch.Tensor:
    """The likeliest token at every step; the state keeps keys and values of the steps before."""
    state = model.start(GenerationInputs.of(source), capacity=LENGTH + 1)
    tokens = [torch.full((source.shape[0], 1), START)]
    for _ in range(LENGTH):
        logits = model.step(tokens[-1], state)  # (rows, 1, vocab)
        tokens.append(logits.argmax(dim=-1))
    return torch.cat(tokens[1:], dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    config = TransformerConfig(
        shape="encoder-decoder", head="language", vocab=FIRST + DIGITS,
        d_model=64, heads=4, layers=2, d_ff=128, dropout=0.0, positions="rotary",
    )  # fmt: skip
    model = tl.build(config)
    train(model)
    model.eval()
    source, target = make_batch(1000, torch.Generator().manual_seed(2))
    right = (greedy(model, source) == target).all(dim=1).float().mean()
    print(f"exactly right: {right:.1%} of 1,000")

    trace = tl.Trace(keep="decoder.layers.1.cross_attention.pattern")
    model(source[:1], torch.cat([torch.tensor([[START]]), target[:1]], dim=1), trace=trace)
    pattern = trace["decoder.layers.1.cross_attention.pattern"][0].mean(dim=0)  # heads averaged
    for step, weights in enumerate(pattern):
        print(f"output {step}: looks most at input {int(weights.argmax())} ({weights.max():.0%})")
