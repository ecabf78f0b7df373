"""Masked language modelling: the most probable tokens at each mask.

These models come from other tools (BERT, RoBERTa, DistilBERT). They are scored by masking every
token of a text in turn: the exponential of the mean loss is the pseudo-perplexity.

Devlin et al. 2019, https://arxiv.org/abs/1810.04805
Salazar et al. 2020, https://arxiv.org/abs/1910.14659
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.data.batching import pad
from translucid.data.readers.loading import Loading
from translucid.data.records import Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks import metrics
from translucid.tasks.base import Score, Traits
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.choices import Choices, least_sure, ranked
from translucid.tasks.example import Example
from translucid.tasks.in_batches import in_batches
from translucid.tasks.long_texts import cut_to, text_limit
from translucid.tasks.loss import cross_entropy
from translucid.tasks.options import DataConfig
from translucid.tasks.outputs import Answer, Caption, Cell, Ending, OutputRow, place_of
from translucid.tasks.registry import task
from translucid.tasks.significance import PER_TOKEN, Sums, of_lines, ratio
from translucid.tasks.text_task import TextTask, read_texts
from translucid.tasks.words import in_a_text, of_text

SOFTMAX = (
    "At each mask every token of the vocabulary gets a score, and the softmax turns the scores "
    "into probabilities that sum to 1."
)
UNMASKED = "Nothing is masked, so the model sees the token that it predicts at each position."


class MaskedTokens(Choices):
    """Outputs that are a token at each position, masked or not."""

    kind = "masked_tokens"
    at_positions = True
    caption = Caption(
        "token", "tokens", "The likeliest tokens at each position", "token",
        "where nothing is masked, the model sees the token itself",
    )  # fmt: skip

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer  # not `tokenizer`, which is for models that generate text

    @property
    def mask(self) -> str:
        """The text of the mask token."""
        return self._tokenizer.mask_token

    @property
    def meaning(self) -> Any:
        return self._tokenizer.fingerprint

    def name(self, number: int, before: int | None = None) -> str:
        if number >= len(self._tokenizer):
            return f"<unused{number}>"
        return in_a_text(self._tokenizer, number)

    def plain(self, outputs: Tensor) -> Any:
        return [self.name(number) for number in outputs.argmax(-1).tolist()]

    @property
    def lacking(self) -> str:
        return f"write {self.mask} in the text, and pass the masked token as target"

    def _places(self, example: Example) -> list[int]:
        """The positions of the masks; all positions if there is none."""
        ids = example.batch.inputs["ids"][0].tolist()
        masks = [place for place, i in enumerate(ids) if i == self._tokenizer.mask_id]
        return masks or list(range(len(ids)))

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        words = example.words.source
        place = self._places(example)[-1] if of is None else place_of(of, words, "there are")
        target = int(example.batch.targets[0, place])
        choice = int(outputs[place].argmax()) if target == IGNORE else target
        return Answer(place, choice, f"{self.name(choice)} at {words[place]}")

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        return [self.answer(example, outputs, place) for place in self._places(example)]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        places, words = self._places(example), example.words.source
        ids = example.batch.inputs["ids"][0].tolist()
        masked = ids[places[0]] == self._tokenizer.mask_id
        targets = example.batch.targets[0].tolist()
        rows = tuple(
            OutputRow(words[place], self._cells(outputs[place], targets[place], top))
            for place in places
        )
        last = Ending(
            "choices", "the hidden tokens" if masked else "a token at each place",
            SOFTMAX if masked else UNMASKED, rows, least_sure(rows, "at") if masked else "",
        )  # fmt: skip
        return [last], " ".join(row.cells[0].label for row in rows)

    def _cells(self, logits: Tensor, target: int, top: int) -> tuple[Cell, ...]:
        probabilities = logits.float().softmax(dim=-1)  # (vocab,)
        return tuple(
            Cell(self.name(token), value, chosen=rank == 1, wanted=token == target, rank=rank)
            for token, value, rank in ranked(probabilities, top, target)
        )


LOGITS = 1 << 25  # maximum logits per batch; each token has tens of thousands
LIKELIEST = 5  # number of tokens to show per mask


@dataclass(frozen=True, slots=True)
class FillItem:
    ids: list[int]
    targets: list[int]  # the masked tokens; IGNORE elsewhere, or if they are unknown
    line: int = 0


@dataclass(frozen=True)
class Filling:
    """A token predicted at a mask."""

    token: str
    id: int
    probability: float


@task
class Fill(TextTask[Text, FillItem]):
    """Masked language modelling, scored by pseudo-perplexity and accuracy of the masked tokens."""

    name = "fill"
    metric = "pseudo_perplexity"
    higher_is_better = False
    models = ("transformer",)
    shape, head = "encoder", "fill"
    answer_name = "filled"
    traits = Traits(
        command="fill",
        asks_about=("text",),
        data_keys=("text_column", "unit", "keep_empty", "max_length"),
        decoding_keys=(),
        task_keys=(),
        loss_by_evaluating=True,
    )

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Text]:
        return read_texts(files, data, loading)

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.samples = (
            f"The capital of France is {self.mask}.",
            f"The dog {self.mask} in the {self.mask}.",
        )

    @property
    def mask(self) -> str:
        """The text of the mask token."""
        return self.tokenizer.mask_token

    def encode(self, record: Text) -> FillItem:
        """Encode a text; masks in it are kept and none are added."""
        ids = self.encode_text(record.text)
        return FillItem(ids, [IGNORE] * len(ids), record.line)

    def encode_text(self, text: str) -> list[int]:
        return self.frame(self.tokenizer.encode_masked(text))

    def held_out_items(self, records: Sequence[Text], row: int) -> list[FillItem]:
        """One item for each token of each text, with that token masked. Texts longer than `row`
        tokens are split."""
        around = len(self.frame.prefix) + len(self.frame.suffix)
        items = []
        for record in records:
            ids = self.tokenizer.encode(record.text)
            for start in range(0, len(ids), row - around):
                part = self.frame(ids[start : start + row - around])
                items += self._masked_in_turn(part, record.line)
        return items

    def count_examples(self, items: Sequence[FillItem]) -> int:
        return len({item.line for item in items})

    def _masked_in_turn(self, ids: list[int], line: int) -> list[FillItem]:
        items = []
        for place in range(len(self.frame.prefix), len(ids) - len(self.frame.suffix)):
            masked, targets = list(ids), [IGNORE] * len(ids)
            masked[place], targets[place] = self.tokenizer.mask_id, ids[place]
            items.append(FillItem(masked, targets, line))
        return items

    def targets(self, item: FillItem) -> int:
        return sum(target != IGNORE for target in item.targets)

    def shorten(self, item: FillItem, max_length: int) -> FillItem:
        ids = self.frame.shorten(item.ids, max_length)
        end = len(ids) - len(self.frame.suffix)
        targets = [*item.targets[:end], *[IGNORE] * len(self.frame.suffix)]
        return replace(item, ids=ids, targets=targets)

    def collate(self, items: Sequence[FillItem]) -> Batch:
        targets, _ = pad([item.targets for item in items], IGNORE)
        inputs, lines = self.padded([item.ids for item in items]), tuple(i.line for i in items)
        return Batch(inputs, targets, sum(map(self.targets, items)), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(model(**batch.inputs), batch.targets)

    def evaluate(self, model: nn.Module, items: Sequence[FillItem]) -> Score:
        def act(batch: Batch) -> list[tuple[float, int]]:
            logits = model(**batch.inputs).float()
            losses = self.outputs.losses(logits, batch.targets).view(batch.targets.shape)
            right = (logits.argmax(dim=-1) == batch.targets).sum(dim=1)
            return list(zip(losses.sum(dim=1).tolist(), right.tolist(), strict=True))

        rows = in_batches(model, items, self, act, self._batch_tokens(model))
        count = max(sum(self.targets(item) for item in items), 1)
        loss = sum(loss for loss, _ in rows) / count
        accuracy = sum(right for _, right in rows) / count
        perplexity = math.exp(min(loss, 700))
        note = f"each of {count:,} tokens masked in turn"
        return Score(
            {"pseudo_perplexity": perplexity, "accuracy": accuracy, "loss": loss}, (note,),
            sums=lambda: self._sums(rows, items),
        )  # fmt: skip

    def _sums(
        self, rows: Sequence[tuple[float, int]], items: Sequence[FillItem]
    ) -> dict[str, Sums]:
        """The sums from which each metric is computed, with one row of terms for each text."""
        lines, counts = [item.line for item in items], [self.targets(item) for item in items]
        losses, hits = (
            [(float(row[place]), float(n)) for row, n in zip(rows, counts, strict=True)]
            for place in (0, 1)
        )
        return {
            "pseudo_perplexity": of_lines(
                lines, losses, lambda sums: metrics.perplexity(float(sums[0]), float(sums[1]))
            ),
            "accuracy": of_lines(lines, hits, ratio),
            "loss": of_lines(lines, losses, ratio),
        }

    @property
    def units(self) -> Mapping[str, tuple[str, object]]:
        names = ("pseudo_perplexity", "accuracy", "loss")
        return dict.fromkeys(names, (PER_TOKEN, self.tokenizer.fingerprint))

    def _batch_tokens(self, model: nn.Module) -> int:
        config: Any = model.config
        return max(LOGITS // int(config.vocab), 1)

    # ---- predictions at the masks ----

    def read_line(self, line: str, where: str, network: nn.Module) -> FillItem:
        ids = self.encode_text(line)
        return FillItem(ids, [IGNORE] * len(ids))

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        """Raise an error if a text has no mask; long texts are truncated."""
        if self.mask not in question:
            raise InputError(
                f"{where}: {question[:60]!r} has no mask; write {self.mask} where a token is to be "
                "filled in"
            )

    def predict_lines(
        self, model: nn.Module, lines: Sequence[str], k: int = LIKELIEST
    ) -> list[list[list[Filling]]]:
        """The k most probable tokens at each mask of each text."""
        for number, line in enumerate(lines, start=1):
            self.check_question(line, f"text {number}", model)
        items = [self.read_line(line, "", model) for line in lines]
        return self.predict(model, items, k)

    def predict(
        self, model: nn.Module, items: Sequence[FillItem], k: int = LIKELIEST
    ) -> list[list[list[Filling]]]:
        if k < 1:
            raise InputError(f"k = {k}: the number of tokens to show per mask must be at least 1")
        tokens = len(self.tokenizer)
        mask_id = self.tokenizer.mask_id

        def act(batch: Batch) -> list[list[list[Filling]]]:
            probabilities = model(**batch.inputs).float().softmax(dim=-1)[..., :tokens]
            rows = []
            for ids, row in zip(batch.inputs["ids"], probabilities, strict=True):
                best = row[ids == mask_id].topk(min(k, tokens))  # (masks, k)
                rows.append([
                    [Filling(in_a_text(self.tokenizer, token), token, value)
                     for token, value in zip(*mask, strict=True)]
                    for mask in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                ])  # fmt: skip
            return rows

        short = cut_to(self, items, text_limit(model))
        for before, after in zip(items, short, strict=True):
            if before.ids.count(mask_id) != after.ids.count(mask_id):
                raise InputError(
                    f"a mask is beyond the {text_limit(model):,} tokens that this model reads; "
                    "shorten the text before the mask"
                )
        return in_batches(model, short, self, act, self._batch_tokens(model))

    def answer_text(self, answer: list[list[Filling]]) -> str:
        return "\t".join(
            " ".join(f"{filling.token} {filling.probability:.3f}" for filling in mask)
            for mask in answer
        )

    def answer_json(self, line: str, answer: list[list[Filling]]) -> dict[str, Any]:
        return {"text": line, "masks": [[vars(filling) for filling in mask] for mask in answer]}

    # ---- tracing and the studio ----

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from a text. target: the token at each mask, separated by spaces."""
        ids = self.encode_text(text)
        targets = [IGNORE] * len(ids)
        if target is not None:
            places = [place for place, i in enumerate(ids) if i == self.tokenizer.mask_id]
            for place, token in zip(places, self._read_targets(target, len(places)), strict=True):
                targets[place] = token
        first, *others = (of_text(self.tokenizer, part) for part in
                          self.tokenizer.around_masks(text))  # fmt: skip
        inside = (*first, *(label for part in others for label in (self.mask, *part)))
        return self.labelled_example(text, FillItem(ids, targets), inside)

    def _read_targets(self, target: str, masks: int) -> list[int]:
        words = target.split()
        if len(words) != masks:
            raise InputError(
                f"target {target[:60]!r} has {len(words)} words, but the text has {masks} masks; "
                "pass one word per mask, separated by spaces"
            )
        tokens = []
        for word in words:
            spelt = [self.tokenizer.encode(text) for text in (f" {word}", word)]
            ids = min(spelt, key=len)  # some tokenizers spell a word differently inside a text
            if len(ids) != 1:
                raise InputError(
                    f"target {word!r} is {len(ids)} tokens "
                    f"({' '.join(self.tokenizer.pieces(ids))}); a mask stands for one token"
                )
            tokens += ids
        return tokens

    @property
    def outputs(self) -> MaskedTokens:
        return MaskedTokens(self.tokenizer)
