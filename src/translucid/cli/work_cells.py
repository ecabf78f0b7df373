"""`translucid work rnn`, `lstm` and `gru`."""

from typing import Annotated, Any

from translucid.cli.work_options import (
    H0,
    Digits,
    File,
    Format,
    Rate,
    Sequence,
    Target,
    collect,
    numbers,
    solve,
    weight,
    word,
)


def rnn(
    x: Sequence = None,
    W: Annotated[str | None, weight("W")] = None,
    U: Annotated[str | None, weight("U")] = None,
    b: Annotated[str | None, weight("b")] = None,
    h0: H0 = None,
    target: Target = None,
    rate: Rate = None,
    activation: Annotated[str | None, word("--activation", ("tanh", "relu"))] = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """A recurrent network, forward and back through time.

    h = act(W x + U h + b), one step for each row of x.

    Example: translucid work rnn --x "1; -0.5; 2" --W 0.5 --U 0.8 --target 1 --rate 0.1
    """
    values = {"x": x, "h0": h0, "target": target, "rate": rate, "digits": digits}
    weights = {"W": W, "U": U, "b": b}
    words = {"activation": activation}
    return solve("rnn", collect({**values, **weights}, file, words=words), weights)


def lstm(
    x: Sequence = None,
    W_f: Annotated[str | None, weight("W_f", "forget gate")] = None,
    U_f: Annotated[str | None, weight("U_f", "forget gate")] = None,
    b_f: Annotated[str | None, weight("b_f", "forget gate")] = None,
    W_i: Annotated[str | None, weight("W_i", "input gate")] = None,
    U_i: Annotated[str | None, weight("U_i", "input gate")] = None,
    b_i: Annotated[str | None, weight("b_i", "input gate")] = None,
    W_g: Annotated[str | None, weight("W_g", "candidate")] = None,
    U_g: Annotated[str | None, weight("U_g", "candidate")] = None,
    b_g: Annotated[str | None, weight("b_g", "candidate")] = None,
    W_o: Annotated[str | None, weight("W_o", "output gate")] = None,
    U_o: Annotated[str | None, weight("U_o", "output gate")] = None,
    b_o: Annotated[str | None, weight("b_o", "output gate")] = None,
    h0: H0 = None,
    c0: Annotated[str | None, numbers("--c0", help="The cell before the first step (0).")] = None,
    target: Target = None,
    rate: Rate = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """An LSTM, forward and back through time.

    Forget (f), input (i) and output (o) gates, candidate (g), cell and state, at every step.

    Example: translucid work lstm --target 1 --rate 0.1

    Example: translucid work lstm --file lstm.toml
    """
    values = {"x": x, "h0": h0, "c0": c0, "target": target, "rate": rate, "digits": digits}
    weights = {"W_f": W_f, "U_f": U_f, "b_f": b_f, "W_i": W_i, "U_i": U_i, "b_i": b_i}
    weights |= {"W_g": W_g, "U_g": U_g, "b_g": b_g, "W_o": W_o, "U_o": U_o, "b_o": b_o}
    return solve("lstm", collect({**values, **weights}, file), weights)


def gru(
    x: Sequence = None,
    W_r: Annotated[str | None, weight("W_r", "reset gate")] = None,
    U_r: Annotated[str | None, weight("U_r", "reset gate")] = None,
    b_r: Annotated[str | None, weight("b_r", "reset gate")] = None,
    W_z: Annotated[str | None, weight("W_z", "update gate")] = None,
    U_z: Annotated[str | None, weight("U_z", "update gate")] = None,
    b_z: Annotated[str | None, weight("b_z", "update gate")] = None,
    W_n: Annotated[str | None, weight("W_n", "candidate")] = None,
    U_n: Annotated[str | None, weight("U_n", "candidate")] = None,
    b_n: Annotated[str | None, weight("b_n", "candidate")] = None,
    b_hn: Annotated[str | None, weight("b_hn", "candidate, within the reset")] = None,
    h0: H0 = None,
    target: Target = None,
    rate: Rate = None,
    file: File = None,
    format: Format = "text",
    digits: Digits = None,
) -> Any:
    """A GRU, forward and back through time.

    Reset (r) and update (z) gates, candidate (n) and state, at every step.

    Example: translucid work gru --target 1 --rate 0.1

    Example: translucid work gru --file gru.toml
    """
    values = {"x": x, "h0": h0, "target": target, "rate": rate, "digits": digits}
    weights = {"W_r": W_r, "U_r": U_r, "b_r": b_r, "W_z": W_z, "U_z": U_z, "b_z": b_z}
    weights |= {"W_n": W_n, "U_n": U_n, "b_n": b_n, "b_hn": b_hn}
    return solve("gru", collect({**values, **weights}, file), weights)
