"""JoeyNMT Transformers: a checkpoint with the tensors, config.yaml with the options, and one
vocabulary each for source and target.

Source, in joeynmt/joeynmt: model.py at 0d63508 (tied tables, the head in the decoder),
decoders.py at e0cfa7d (layer_norm, no bias in the head), encoders.py at c6f2ab9 and
transformer_layers.py at c5ec042 (1.x: always pre-norm) and 0d6d2b9 (2.x: alpha, pre or post),
vocabulary.py at 0ae2902.
"""

from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, read_text
from translucid.interop.families.plan import (
    ACTIVATIONS,
    ForeignModel,
    ImportPlan,
    Options,
    Origin,
    alike,
    shared_tables,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.rules import WeightRule
from translucid.interop.tokenizers import plain_vocabulary
from translucid.interop.tokenizers.plain_vocabulary import Split
from translucid.interop.tokenizers.specs import ReadTokenizers

LAYOUT = "a checkpoint"
OPTIONS = "config.yaml"
LARGEST = 64 << 10  # bytes of config.yaml; this many take a second to parse
MAX_BRACKETS = 1000  # parsing time grows with the square of their depth
VOCABULARIES = {"src": "src_vocab.txt", "trg": "trg_vocab.txt"}
MODEL = "model_state."
TABLES = {
    "encoder": f"{MODEL}src_embed.lut.weight",
    "decoder": f"{MODEL}trg_embed.lut.weight",
}
HEAD = f"{MODEL}decoder.output_layer.weight"
OF_ATTENTION = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "output": "output_layer"}
ATTENTION = {"encoder": "src_src_att", "decoder": "trg_trg_att"}
IGNORED = (
    rf"{MODEL}(encoder|decoder)\.pe\.pe",  # sinusoids, stored
    rf"(?!{MODEL}).*",  # the state of training
)


def read(origin: Origin) -> ForeignModel:
    """Read a checkpoint file, or the best checkpoint of a folder."""
    path = _checkpoint(origin.path) if origin.path.is_dir() else origin.path
    file = inside(path.parent, OPTIONS, "a model")
    options = Options(read_yaml(file), str(file))
    return ForeignModel("joeynmt", path, options, origin.checkpoint or read_torch(path))


def _checkpoint(folder: Path) -> Path:
    """The best checkpoint of a folder (best.ckpt links to it), or its only one."""
    best = folder / "best.ckpt"
    files = [path for path in folder.glob("*.ckpt") if not path.is_symlink()]
    if best.exists() and best.resolve().parent == folder.resolve():
        return best.resolve()
    if len(files) == 1:
        return inside(folder, files[0].name, "a model")
    raise InputError(
        f"{folder} has {len(files)} checkpoints and no best.ckpt; choose one of "
        f"{', '.join(sorted(path.name for path in files))[:200]}"
    )


def plan(model: ForeignModel) -> ImportPlan:
    config, tensors = model.config, model.tensors
    options = config.part("model")
    stacks = {side: options.part(side) for side in TABLES}
    for side, stack in stacks.items():
        kind = stack.text("type", "recurrent")
        if kind != "transformer":
            config.unsupported(f"model.{side}.type = {kind[:40]!r}", "transformer")
        if stack.get("alpha", 1.0) != 1:
            alpha = f"model.{side}.alpha = {str(stack.get('alpha'))[:40]}"
            config.unsupported(f"{alpha} (a weight of the residual connection)", "1.0")
    layers = {side: model.count_layers(f"{MODEL}{side}.layers.") for side in TABLES}
    # Whether encoder and decoder share a table, and whether the output head is tied.
    shared, tied = (options.flag(name, False) for name in ("tied_embeddings", "tied_softmax"))
    first = f"{MODEL}encoder.layers.0."
    made = model.transformer(
        shape="encoder-decoder",
        head="language",
        vocab=model.rows(TABLES["encoder"]),
        target_vocab=None if shared else model.rows(TABLES["decoder"]),
        d_model=tensors[TABLES["encoder"]].shape[-1],
        heads=_both(stacks, "num_heads", 8),
        layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_ff=model.rows(f"{first}feed_forward.pwff_layer.0.weight"),
        activation=ACTIVATIONS.get(_both(stacks, "activation", "relu"), "?"),
        norm_eps=1e-6,
        placement=_placement(stacks, last=f"{MODEL}encoder.layer_norm.weight" in tensors),
        positions="sinusoidal",
        embedding_scale=_scaled(stacks),
        tied=tied,
        dropout=0.0,
    )
    tables = shared_tables(TABLES, HEAD, shared=shared, tied=tied)
    rules: list[WeightRule] = []
    for side in TABLES:
        layer = f"{MODEL}{side}.layers.{{}}."
        modules = {r: f"{layer}{ATTENTION[side]}.{name}" for r, name in OF_ATTENTION.items()}
        modules |= {f"cross_{r}": f"{layer}src_trg_att.{name}" for r, name in OF_ATTENTION.items()}
        modules |= {
            "attention_norm": f"{layer}{'layer_norm' if side == 'encoder' else 'x_layer_norm'}",
            "cross_norm": f"{layer}dec_layer_norm",
            "feedforward_norm": f"{layer}feed_forward.layer_norm",
            "up": f"{layer}feed_forward.pwff_layer.0",
            "down": f"{layer}feed_forward.pwff_layer.3",
            "final_norm": f"{MODEL}{side}.layer_norm",
        }
        rules += stack_rules(made, side, layers[side], Names(modules), cross=side == "decoder")
    return ImportPlan("JoeyNMT Transformer", "translate", made, rules + tables.rules,
                      (*IGNORED, *tables.ignored), notes=tables.notes)  # fmt: skip


def _placement(stacks: dict[str, Options], *, last: bool) -> str:
    """Whether norms come before or after the sub-layers. last: whether the stacks end with a norm;
    only pre-norm stacks do."""
    if last:
        return "pre"
    if not _both(stacks, "layer_norm", ""):
        # The default is post in versions 2.0 to 2.2; in 2.3 the encoder is pre, but without a
        # final norm.
        raise InputError(
            f"{stacks['encoder'].where} sets no layer_norm for encoder and decoder, whose default "
            "depends on the version of JoeyNMT; set layer_norm: post for both if the model was "
            "trained with version 2.0, 2.1 or 2.2"
        )
    return "post"


def _scaled(stacks: dict[str, Options]) -> bool:
    embeddings = {side: options.part("embeddings") for side, options in stacks.items()}
    return bool(_both(embeddings, "scale", False))


def _both(stacks: dict[str, Options], name: str, default: Any) -> Any:
    values = {f"{side}.{name}": stack.get(name, default) for side, stack in stacks.items()}
    return alike(stacks["encoder"].where, values)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. PyYAML's safe loader builds only plain values."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(
            f"{path}: reading YAML needs the package PyYAML: pip install pyyaml"
        ) from None
    text = read_text(path, LARGEST, "it should be a JoeyNMT configuration")
    if text.count("[") + text.count("{") > MAX_BRACKETS:
        raise InputError(f"{path} has more than {MAX_BRACKETS} brackets; it is not a configuration")
    try:
        # References could expand a short text into a huge value.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise InputError(
                f"{path} contains YAML aliases (*name); replace them with their values"
            )
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not valid YAML ({str(error)[:200]}); correct it") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} contains no mapping of keys to values; copy it again")
    return value


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    """Read the vocabularies, one token per line. Texts are split at spaces, as they were before
    training; in character vocabularies, ▁ is a space."""
    remedy = "copy src_vocab.txt and trg_vocab.txt into the checkpoint's folder"
    source, target = (
        plain_vocabulary.read_lines(model.need(name, remedy), plan.rows(side))
        for name, side in zip(VOCABULARIES.values(), ("source", "target"), strict=True)
    )
    splits = [_split(model.config, side) for side in VOCABULARIES]
    one = plan.shared and source == target and splits[0] == splits[1]
    return plain_vocabulary.tokenizers(
        source, None if one else target, split=splits[0], target_split=splits[1], tool="JoeyNMT",
        files=list(VOCABULARIES.values()),
    )  # fmt: skip


def _split(config: Options, side: str) -> Split:
    data = config.part("data")
    level = data.part(side).get("level", data.get("level"))  # one for both sides in older files
    return "marked" if level == "char" else "space"
