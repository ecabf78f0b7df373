"""generation_config.json: for every field of transformers' own class, texts are those of its
`generate`, or opening the folder is refused by the field's name, or the field changes no text."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run
from tests.interop.reference import randomised, save, transformers
from tests.interop.test_bart import made as made_bart
from tests.interop.test_tokenizers import llama, marian
from tests.tiny.dealt import dealt

import translucid as tl
from translucid.core.errors import InputError
from translucid.generate.sampling import SamplingConfig, shape
from translucid.interop.generation_config import (
    FIELDS,
    FILE,
    HONOURED,
    IRRELEVANT,
    REFUSED,
    REFUSED_SAMPLING,
    TOKENS,
    read_generation,
)
from translucid.interop.kinds import read_source

TEXTS = ["the cat", "in the sun there is no rest", "no"]
BEAMS = {"num_beams": 3}
Fields = dict[str, Any]


class Folder:
    """A tiny random model of transformers with its tokenizer, whose generation_config.json a test
    replaces."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        library = transformers()
        if kind == "seq2seq":
            last = len(marian(path)["source"]) - 1
            roles = {"pad_token_id": last, "decoder_start_token_id": last}
            self.theirs = made_bart("marian", vocab_size=last + 1, **roles)
            self.ids: Fields = roles | {"eos_token_id": 0}
            with torch.no_grad():
                for name, weight in self.theirs.named_parameters():  # or it repeats one token
                    weight *= 0 if name.endswith(".bias") else 1
                    weight *= 10 if name.endswith("fc2.weight") else 1
                    weight *= 0.3 if "encoder_attn.out_proj" in name else 1
                    weight *= 0.2 if "self_attn.out_proj" in name else 1
                    if name.endswith("layer_norm.weight"):
                        weight.fill_(1)
            self.theirs.final_logits_bias[:, 0] += 1.5  # so that texts end
            self.theirs.final_logits_bias[:, last] = -1e4  # padding, which ours never writes
        else:
            sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                     "num_attention_heads": 2, "max_position_embeddings": 64}  # fmt: skip
            self.ids = {"bos_token_id": 1, "eos_token_id": 2}
            config = library.LlamaConfig(**sizes, **self.ids, vocab_size=len(llama(path)))
            self.theirs = randomised(library.LlamaForCausalLM(config), seed=3)
            with torch.no_grad():  # few tokens compete, so that texts end
                self.theirs.lm_head.weight[40:] *= 0.1
                self.theirs.lm_head.weight[2] = 1.05 * self.theirs.lm_head.weight[6]
        save(self.theirs, path)

    def write(self, fields: Fields) -> None:
        (self.path / FILE).write_text(json.dumps(self.ids | fields))

    def ours(self, **options: Any) -> list[list[int]]:
        """The tokens that Translucid writes, without start and end."""
        model = tl.load(self.path)
        if self.kind == "seq2seq":
            return [one.texts[0].tokens for one in model.decode(TEXTS, **options)]
        tokens = []
        for text in TEXTS:
            _, by = model.text_generator._language_settings({})
            if by is None:
                (decoded,) = model.decode([text], **options)
            else:
                (decoded,) = model.decode([text], sampling=by, **options)
            tokens.append(decoded.texts[0].tokens)
        return tokens

    def reference(self) -> list[list[int]]:
        library = transformers()
        model = tl.load(self.path)
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")
            self.theirs.generation_config = library.GenerationConfig.from_pretrained(self.path)
            fields = json.loads((self.path / FILE).read_text("utf-8"))
            ends = fields["eos_token_id"]
            ends = ends if isinstance(ends, list) else [ends]
            tokens = []
            for text in TEXTS:
                if self.kind == "seq2seq":
                    ids = model.task.frame(model.task.source.encode(text))  # type: ignore[attr-defined]
                    given = 1 + ("forced_bos_token_id" in fields)
                else:
                    start, rest = model.task.prompt(text)  # type: ignore[attr-defined]
                    ids = [*start, *rest]
                    given = len(ids)
                source = torch.tensor([ids])
                row = self.theirs.generate(source, attention_mask=torch.ones_like(source))[0]
                written = row.tolist()[given:]
                end = next((i for i, token in enumerate(written) if token in ends), len(written))
                tokens.append(written[:end])
        return tokens


@pytest.fixture(scope="module", params=["seq2seq", "decoder"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp(request.param), request.param)


def test_the_table_has_every_field_of_the_real_class() -> None:
    real = vars(transformers().GenerationConfig()).keys()
    assert not real - {*FIELDS}
    groups = (HONOURED, IRRELEVANT, REFUSED, REFUSED_SAMPLING)
    assert len(FIELDS) == len({*FIELDS}) == sum(map(len, groups))


# Each field with values other than its default, and what else must be set for it to count.
MAX = {"max_new_tokens": 10}
CASES: dict[str, list[Fields]] = {
    "num_beams": [{}, {"num_beams": 2}, {"num_beams": 4}],
    "length_penalty": [BEAMS | {"length_penalty": p} for p in (0.0, 0.5, 3)],
    "early_stopping": [BEAMS | {"early_stopping": e, "length_penalty": 2.0}
                       for e in (True, False, "never")],
    "max_length": [{"max_new_tokens": None, "max_length": 25},
                   BEAMS | {"max_new_tokens": None, "max_length": 24}, {"max_length": 5}],
    "max_new_tokens": [{"max_new_tokens": 3}, BEAMS | {"max_new_tokens": 5}],
    "min_length": [{"min_length": 11}, BEAMS | {"min_length": 8}, {"min_length": 26}],
    "min_new_tokens": [{"min_new_tokens": 9}, BEAMS | {"min_new_tokens": 10, "min_length": 2}],
    "no_repeat_ngram_size": [{"no_repeat_ngram_size": 1}, BEAMS | {"no_repeat_ngram_size": 2}],
    "repetition_penalty": [{"repetition_penalty": 1.7}, {"repetition_penalty": 0.6},
                           BEAMS | {"repetition_penalty": 1.7}],
    "bad_words_ids": [{"bad_words_ids": [[22], [23, 24], [25, 5]]},
                      BEAMS | {"bad_words_ids": [[25], [23, 24]]}],
    "suppress_tokens": [{"suppress_tokens": [22, 25]}, BEAMS | {"suppress_tokens": [22]}],
    "begin_suppress_tokens": [{"begin_suppress_tokens": [0, 2, 22, 23, 24, 25]},
                              BEAMS | {"begin_suppress_tokens": [0, 2, 22, 23, 24, 25]}],
    "forced_eos_token_id": [{"forced_eos_token_id": 0}, BEAMS | {"forced_eos_token_id": 0},
                            BEAMS | {"forced_eos_token_id": 7, "length_penalty": 0.3}],
    "renormalize_logits": [{"renormalize_logits": True}, BEAMS | {
        "renormalize_logits": True, "suppress_tokens": [22, 23, 24]}],
    "eos_token_id": [{"eos_token_id": [0, 2, 22]}, BEAMS | {"eos_token_id": [2, 0, 24]}],
    "forced_bos_token_id": [{"forced_bos_token_id": 6}, BEAMS | {
        "forced_bos_token_id": 6, "length_penalty": 2.0, "max_new_tokens": None, "max_length": 9,
        "repetition_penalty": 1.5, "min_length": 5}],
    "decoder_start_token_id": [{"decoder_start_token_id": 5}],
    "temperature": [{"temperature": 0.3}, BEAMS | {"top_p": 0.2, "top_k": 1, "min_p": 0.5}],
}  # fmt: skip
SEQ2SEQ_ONLY = ("forced_bos_token_id", "decoder_start_token_id")
FEW = ("temperature", "renormalize_logits")  # which change no text, or few
OF_A_PAIR = ("top_k", "top_p", "min_p", "do_sample")  # in the case of temperature; see below


def test_every_honoured_field_has_a_case() -> None:
    assert {*HONOURED} == {*CASES, *OF_A_PAIR, "bos_token_id", "pad_token_id"}


@pytest.mark.parametrize("name", dealt(CASES, share=5, rest=pytest.mark.slow))
def test_texts_are_those_of_generate(folder: Folder, name: str) -> None:
    if folder.kind == "decoder" and name in SEQ2SEQ_ONLY:
        pytest.skip("a language model continues its prompt")
    changed = 0
    for fields in CASES[name]:
        without = {key: value for key, value in fields.items() if key != name}
        folder.write(MAX | without)
        before = folder.ours()
        folder.write(MAX | fields)
        ours = folder.ours()
        assert ours == folder.reference(), fields
        changed += ours != before
    assert changed or name in FEW, name  # else it would show nothing


ODD: Fields = {  # values other than the default
    "num_beam_groups": 2, "penalty_alpha": 0.6, "dola_layers": "high", "guidance_scale": 2.0,
    "sequence_bias": [[[4], 2.0]], "encoder_repetition_penalty": 1.5,
    "encoder_no_repeat_ngram_size": 2, "exponential_decay_length_penalty": [2, 1.1],
    "force_words_ids": [[4]], "constraints": ["x"], "watermarking_config": {"bias": 2.0},
    "token_healing": True, "max_time": 1.0, "stop_strings": ["a"],
    "cache_implementation": "quantized", "typical_p": 0.5, "epsilon_cutoff": 0.1,
    "eta_cutoff": 0.1, "top_h": 0.4,
}  # fmt: skip


@pytest.mark.parametrize(
    "name", dealt([*REFUSED, *REFUSED_SAMPLING], share=5, rest=pytest.mark.slow)
)
def test_unsupported_fields_are_refused_by_name(folder: Folder, name: str) -> None:
    more = {"do_sample": True} if name in REFUSED_SAMPLING else {}
    folder.write(MAX | more | {name: ODD[name]})
    with pytest.raises(InputError, match=name) as refused:
        tl.load(folder.path)
    assert FILE in str(refused.value)
    neutral = (REFUSED | REFUSED_SAMPLING)[name][0]
    for value in (None, *neutral):
        folder.write(MAX | more | {name: value})
        tl.load(folder.path)
    if more:  # without sampling it has no effect there either
        folder.write(MAX | {name: ODD[name]})
        assert folder.ours() == folder.reference()


CHANGING_NOTHING: Fields = {
    "use_cache": False, "output_scores": True, "output_logits": True, "output_attentions": False,
    "remove_invalid_values": True, "diversity_penalty": 0.0, "num_return_sequences": 1,
    "prompt_lookup_num_tokens": None, "low_memory": True, "num_assistant_tokens": 3,
}  # fmt: skip


def test_irrelevant_fields_change_no_text(folder: Folder) -> None:
    folder.write(MAX)
    plain = folder.ours()
    folder.write(MAX | CHANGING_NOTHING)
    assert folder.ours() == plain == folder.reference()
    source = read_source(folder.path)
    for name in IRRELEVANT:
        folder.write(MAX)
        before = read_generation(source, None, 27)
        folder.write(MAX | {name: 3})
        after = read_generation(source, None, 27)
        assert after.decoding == before.decoding
        assert after.statistics["generation"] == before.statistics["generation"]


def test_notes_list_applied_and_ignored_fields(folder: Folder) -> None:
    folder.write(MAX | BEAMS | {"top_p": 0.4, "lang_to_id": {"de": 3}, "no_repeat_ngram_size": 2})
    notes = "\n".join(tl.load(folder.path).facts["notes"])
    assert "beam search, 3 beams" in notes
    assert "no_repeat_ngram_size = 2" in notes
    assert "no effect without do_sample: top_p" in notes
    assert "not applied: lang_to_id" in notes
    folder.write({"do_sample": True})
    notes = "\n".join(tl.load(folder.path).facts["notes"])
    assert "sampling, top_k = 50" in notes
    assert "no maximum length" in notes


def test_without_a_file_config_json_decides(folder: Folder) -> None:
    (folder.path / FILE).unlink(missing_ok=True)
    file = folder.path / "config.json"
    config = json.loads(file.read_text("utf-8"))
    try:
        more = BEAMS | MAX | {"length_penalty": 0.5, "task_specific_params": {"summarization": {}}}
        file.write_text(json.dumps(config | more))
        ours, notes = folder.ours(), "\n".join(tl.load(folder.path).facts["notes"])
        assert "from config.json: num_beams = 3" in notes
        assert "task_specific_params (summarization) are not applied" in notes
        theirs = {k: v for k, v in config.items() if k == "forced_eos_token_id"}
        folder.write(BEAMS | MAX | {"length_penalty": 0.5} | theirs)
        assert folder.ours() == ours == folder.reference()
        folder.write(MAX)  # which goes before config.json
        assert folder.ours() == folder.reference()
    finally:
        file.write_text(json.dumps(config))


@pytest.mark.parametrize(
    "fields", [{"temperature": 0.6}, {"top_k": 4}, {"top_p": 0.7, "top_k": 0},
               {"min_p": 0.2, "temperature": 1.4, "top_k": 9, "top_p": 0.9}]
)  # fmt: skip
def test_samples_have_the_probabilities_of_the_reference(folder: Folder, fields: Fields) -> None:
    folder.write(MAX | {"do_sample": True} | fields)
    model, library = tl.load(folder.path), transformers()
    by = model.task.sampling  # type: ignore[attr-defined]
    assert isinstance(by, SamplingConfig)
    theirs = library.GenerationConfig.from_pretrained(folder.path)
    defaults = theirs._get_default_generation_params()
    theirs.update(**defaults, defaults_only=True)
    processors = folder.theirs._get_logits_processor(theirs, input_ids_seq_length=1)
    torch.manual_seed(0)
    logits = 2 * torch.randn(6, 200)
    wanted = processors(torch.zeros(6, 1, dtype=torch.long), logits).softmax(-1)
    assert torch.allclose(shape(logits.log_softmax(-1), by).softmax(-1), wanted, atol=1e-6)
    if folder.kind == "decoder":
        first, again = (model.generate("the cat", seed=1) for _ in range(2))
        others = {model.generate("the cat", seed=seed) for seed in range(8)}
        assert first == again
        assert len(others) > 1 or fields == {"temperature": 0.6}
    else:
        drawn = {model.decode(TEXTS[:1], seed=seed)[0].texts[0].text for seed in range(8)}
        assert len(drawn) > 1 or "top_k" in fields


def test_options_override_the_file(folder: Folder) -> None:
    folder.write(BEAMS | {"max_length": 20, "min_length": 12})
    assert all(len(tokens) <= 3 for tokens in folder.ours(max_length=3))
    if folder.kind == "decoder":
        prompts = folder.path / "prompts.txt"
        prompts.write_text("the cat\n")
        shown = run("generate", str(folder.path), "--prompts", str(prompts), "--json")
        assert json.loads(shown.stdout)["text"] == tl.load(folder.path).generate("the cat")
        short = run("generate", str(folder.path), "the cat", "--max-length", "1", "--temperature",
                    "0")  # fmt: skip
        assert short.returncode == 0
        folder.write({"max_length": 2})
        with pytest.raises(InputError, match="max_length = 2"):
            tl.load(folder.path).generate("in the sun")


def test_scores_note_that_sampling_is_not_applied(folder: Folder, tmp_path: Path) -> None:
    if folder.kind != "seq2seq":
        pytest.skip("a language model is scored on its loss")
    for side in ("source", "target"):
        (tmp_path / side).write_text("the cat\n", "utf-8")
    for fields, said in (({}, False), ({"do_sample": True}, True)):
        folder.write(MAX | fields)
        score = tl.load(folder.path).evaluate(str(tmp_path / "source"), str(tmp_path / "target"))
        assert any("do_sample" in note for note in score.notes) is said


@pytest.mark.parametrize("wrong", [{"num_beams": 10**9}, {"num_beams": 0}, {"num_beams": True},
                                   {"num_beams": "4"}, {"length_penalty": -1.0},
                                   {"early_stopping": "soon"}, {"suppress_tokens": ["a"]},
                                   {"max_new_tokens": -2}, {"do_sample": 1},
                                   {"suppress_tokens": [10**6]}])  # fmt: skip
def test_invalid_values_are_refused(folder: Folder, wrong: Fields) -> None:
    folder.write(wrong)
    with pytest.raises(InputError, match=next(iter(wrong))):
        tl.load(folder.path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bad_words_ids", "early_stopping", "max_length", "temperature"])
def test_export_keeps_every_field(folder: Folder, name: str, tmp_path: Path) -> None:
    library = transformers()
    fields = MAX | CASES[name][-1] | {"top_k": 7, "output_scores": True}
    folder.write(fields)
    model = tl.load(folder.path)
    model.save(tmp_path / "saved")
    tl.load(tmp_path / "saved").export("huggingface", tmp_path / "out")
    before, after = (
        library.GenerationConfig.from_pretrained(path) for path in (folder.path, tmp_path / "out")
    )
    for field in vars(before).keys() - {"transformers_version", "_original_object_hash"}:
        assert getattr(after, field) == getattr(before, field), field
    assert {*TOKENS} <= {*FIELDS}
