"""Names of before: files with them are read; typed today, they are refused with the new one."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import translucid as tl
from translucid.core.atomic_files import write_whole
from translucid.core.errors import ConfigError, InputError
from translucid.core.renamed import KEYS, weight_today
from translucid.core.weights import own_tensors
from translucid.models.build import build
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer import TransformerConfig
from translucid.runs.checkpoints import NUMBERS, TENSORS, Checkpoint, Checkpoints

OLD = Path(__file__).parent / "fixtures" / "before-the-house"
IDS = torch.tensor([[4, 5, 6]])
TAGGER = {"shape": "encoder", "head": "tag", "vocab": 9, "outputs": 3, "d_model": 8, "hidden": 8}


@pytest.mark.parametrize("old", [key for key in KEYS if key.startswith("model.")])
@pytest.mark.parametrize("config", [TransformerConfig, RecurrentConfig])
def test_an_old_key_names_the_new_one(config: type, old: str) -> None:
    name, new = (key.removeprefix("model.") for key in (old, KEYS[old]))
    with pytest.raises(ConfigError, match=f"^{name}: now {new}$"):
        config(shape="encoder", head="tag", vocab=9, outputs=3, **{name: 2})


def test_an_old_input_names_the_new_one() -> None:
    mask = torch.ones_like(IDS, dtype=torch.bool)
    tagger = build(RecurrentConfig(**TAGGER, characters=3))
    with pytest.raises(InputError, match=r"^real: now mask$"):
        tagger(IDS, real=mask)
    with pytest.raises(InputError, match=r"^letters: now characters$"):
        tagger(IDS, mask, letters=IDS[..., None])


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_a_folder_of_before_is_written_with_the_names_of_today(tmp_path: Path, task: str) -> None:
    """Loaded, saved and loaded again, it is the same model; no old name is left."""
    model = tl.load(OLD / task)
    model.save(tmp_path / "new")
    config = json.loads((tmp_path / "new" / "config.json").read_text("utf-8"))
    assert config["format"] == 2
    assert not {"letters", "votes", "members"} & config["model"].keys()
    weights = load_file(tmp_path / "new" / "model.safetensors")
    assert not [name for name in weights if re.search("letters|votes", name)]
    again = own_tensors(tl.load(tmp_path / "new").network)
    for name, tensor in own_tensors(model.network).items():
        assert torch.equal(tensor, again[name])


def test_a_folder_of_today_with_a_name_of_before_is_refused(tmp_path: Path) -> None:
    """Only a folder of the format before is translated."""
    old = json.loads((OLD / "tag" / "best" / "config.json").read_text("utf-8"))

    def written(format: int) -> Path:
        def fill(folder: Path) -> None:
            shutil.copytree(OLD / "tag" / "best", folder, dirs_exist_ok=True)
            (folder / "config.json").write_text(json.dumps(old | {"format": format}), "utf-8")

        write_whole(tmp_path / "model", fill)
        return tmp_path / "model"

    tl.load(written(1))
    with pytest.raises(ConfigError, match="letters: now characters"):
        tl.load(written(2))
    with pytest.raises(InputError, match="format '3', but this version reads 1 and 2"):
        tl.load(written(3))


def test_a_checkpoint_of_before_fills_todays_tensors(tmp_path: Path) -> None:
    ensemble = {"ensemble_size": 2, "ngram_features": 5, "head": "classify"}
    for options in ({"characters": 3}, ensemble):
        network = build(RecurrentConfig(**TAGGER | options))
        wanted = {
            f"{part}.{name}": torch.randn_like(tensor)
            for part in ("network", "average")
            for name, tensor in own_tensors(network).items()
        }
        before = {
            name.replace(".characters.", ".letters.").replace(".ngrams.", ".votes."): tensor
            for name, tensor in wanted.items()
        }
        assert before.keys() != wanted.keys()
        save_file(before, tmp_path / TENSORS)
        found = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
        Checkpoint(1, tmp_path, {}).fill(found)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_a_checkpoint_of_before_has_the_keys_of_today() -> None:
    checkpoint = Checkpoints(OLD / "translate").newest(pytest.fail)
    written = json.loads((checkpoint.folder / NUMBERS).read_text("utf-8"))
    fingerprint = written.pop("told")
    assert checkpoint.numbers == written | {"fingerprint": fingerprint}


def test_other_weights_keep_their_names() -> None:
    for name in ("head.linear.weight", "encoder.ngrams.words", "members.0.encoder.embedding.table"):
        assert weight_today(name) == name
