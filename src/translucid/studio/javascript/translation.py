"""Translate Python modules to JavaScript, so that pages can run them without Python.

The studio's lessons and the worked solutions on the website are translated while a site is built.
Only the definitions that they use are translated. Python's own functions and torch's are in
static/js/python/: `python.js` and `torch.js`.
"""

import ast
import json
import re
from typing import Any

from translucid.studio.javascript.definitions import Module, Place, Program, names_in

# Modules and names of Python for which static/js/python/ has JavaScript.
NATIVE = {
    **{f"{name}:*": f"$p.{name.rpartition('.')[2]}" for name in (
        "contextlib", "copy", "dataclasses", "difflib", "fnmatch", "fractions", "functools",
        "itertools", "json", "math", "operator", "re", "shlex", "textwrap", "typing", "unicodedata",
        "collections.abc", "urllib.parse",
    )},
    "torch:*": "$t.torch", "torch:Tensor": "$t.Tensor", "torch:nn": "$t.nn", "torch.nn:*": "$t.nn",
    "torch.nn.functional:*": "$t.F", "numpy:*": "$t.numpy", "xml.etree.ElementTree:*": "$p.etree",
    "pydantic:*": "$t.config",
}  # fmt: skip
# Names of JavaScript that Python code may use as variables.
_TAKEN = frozenset(
    re.findall(
        r"\w+",
        """arguments await break case catch class const continue debugger default delete do else
        enum eval export extends false finally for function if implements import in instanceof
        interface let new null package private protected public return static super switch this
        throw true try typeof undefined var void while with yield""",
    )
)
_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitOr: "or", ast.BitAnd: "and",
    ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
_COMPARED = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "is", ast.IsNot: "isNot", ast.In: "isIn", ast.NotIn: "notIn",
}  # fmt: skip
_UNARY = {ast.USub: "neg", ast.Not: "not", ast.Invert: "invert", ast.UAdd: "pos"}
_KINDS = ("property", "cached_property", "staticmethod", "classmethod")


class TranslationError(ValueError):
    """The Python code uses something that the translation does not support."""


def translated(program: Program) -> str:
    """The definitions, with short names for the functions that occur often."""
    text = _definitions(program)
    used = re.findall(r"\$[pt]\.\w+(?=\()", text)
    short = {long: f"${_short_name(i)}" for i, long in enumerate(dict.fromkeys(used))}
    text = re.sub(r"\$[pt]\.\w+(?=\()", lambda match: short[match[0]], text)
    head = ", ".join(f"{name} = {long}" for long, name in short.items())
    return f"const {head};\n{text}"


def _definitions(program: Program) -> str:
    out: list[str] = []
    for module in program.modules():
        used = [place.name for place in program.used if place.module == module.name]
        nodes = {id(node) for name in used for node in module.definitions[name]}
        out += [
            _Generator(program, module).top(node) for node in module.tree.body if id(node) in nodes
        ]
    return "\n".join(out)


def _short_name(number: int) -> str:
    """0: A, 1: B, ..., 26: AA"""
    first = "" if number < 26 else _short_name(number // 26 - 1)
    return first + chr(ord("A") + number % 26)


def _own(name: str) -> str:
    return f"{name}$$" if name in _TAKEN else name


class _Generator:
    """Writes one top-level definition. `scopes`: the local names of the functions around."""

    def __init__(self, program: Program, module: Module) -> None:
        self.program, self.module = program, module
        self.scopes: list[set[str]] = []
        self.owner = ""  # the class around

    def fail(self, node: ast.AST, what: str = "") -> TranslationError:
        line = getattr(node, "lineno", 0)
        return TranslationError(
            f"{self.module.name}, line {line}: {what or type(node).__name__} cannot be translated"
        )

    def fresh(self, letter: str) -> str:
        self.program.count += 1
        return f"${letter}{self.program.count}"

    # ---- definitions ----

    def top(self, node: ast.stmt) -> str:
        match node:
            case ast.FunctionDef():
                name = self.program.written(Place(self.module.name, node.name))
                return f"const {name} = {self.function(node)};"
            case ast.ClassDef():
                return self.class_(node)
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                assert node.value is not None
                written = self.target(target)
                if isinstance(target, ast.Name):
                    return f"let {written} = {self.value(node.value)};"
                names = ", ".join(self.name(n) for n in names_in(target))
                return f"let {names}; {self.assign(target, self.value(node.value))}"
            case ast.AugAssign():
                return self.statement(node)
        raise self.fail(node)

    def class_(self, node: ast.ClassDef) -> str:
        name = self.program.written(Place(self.module.name, node.name))
        self.owner = name
        bases = [self.value(base) for base in node.bases if not _is_typing(base)]
        fields, values, methods = [], [], []
        data: bool | str = any("dataclass" in ast.unparse(d) for d in node.decorator_list)
        if any(ast.unparse(base) == "NamedTuple" for base in node.bases):
            data = "tuple"
        for item in node.body:
            match item:
                case ast.AnnAssign(target=ast.Name(id=own)):
                    if "ClassVar" in ast.unparse(item.annotation):
                        assert item.value is not None
                        values.append(f"[{own!r}, () => {self.value(item.value)}]")
                        continue
                    default = "null" if item.value is None else f"() => {self.value(item.value)}"
                    fields.append(f"[{own!r}, {default}]")
                case ast.Assign(targets=[ast.Name(id=own)]):
                    values.append(f"[{own!r}, () => {self.value(item.value)}]")
                case ast.FunctionDef() if self.program.keeps(item):
                    kinds = [ast.unparse(d) for d in item.decorator_list]
                    kind = next((k for k in ("property", "cached_property", "staticmethod",
                                             "classmethod") if k in kinds), "method")  # fmt: skip
                    methods.append(f"[{item.name!r}, {kind!r}, {self.function(item)}]")
        self.owner = ""
        return (
            f"const {name} = $p.makeClass({node.name!r}, [{', '.join(bases)}], "
            f"{json.dumps(data)}, [{', '.join(fields)}], [{', '.join(values)}], "
            f"[{', '.join(methods)}]);"
        )

    def function(self, node: ast.FunctionDef | ast.Lambda) -> str:
        """A function as a JavaScript expression."""
        a = node.args
        parameters = [*a.posonlyargs, *a.args, *a.kwonlyargs]
        extra = [p for p in (a.vararg, a.kwarg) if p is not None]
        defaults = dict(
            zip([p.arg for p in [*a.posonlyargs, *a.args]][::-1], a.defaults[::-1], strict=False)
        )
        defaults |= {p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d}
        written = ", ".join(f"{json.dumps(n)}: {self.value(d)}" for n, d in defaults.items())
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        wrappers = [self.value(d) for d in decorators if not _is_known(d)]
        names = [_own(p.arg) for p in [*parameters, *extra]]
        local = {p.arg for p in [*parameters, *extra]}
        if isinstance(node, ast.Lambda):
            self.scopes.append(local)
            body = f"return {self.value(node.body)};"
            star = ""
        else:
            assigned = _assigned(node.body)
            self.scopes.append(local | assigned)
            new = sorted(_own(n) for n in assigned - local)
            body = f"let {', '.join(new)};\n" if new else ""
            body += self.block(node.body)
            star = "*" if _yields(node.body) else ""
        self.scopes.pop()
        plain = not (a.kwonlyargs or defaults or extra)
        signature = (
            json.dumps(" ".join(p.arg for p in parameters))
            if plain
            else (
                f"[{json.dumps([p.arg for p in [*a.posonlyargs, *a.args]])}, "
                f"{json.dumps([p.arg for p in a.kwonlyargs])}, {{{written}}}, "
                f"{json.dumps(bool(a.vararg))}, {json.dumps(bool(a.kwarg))}]"
            )
        )
        name = "lambda" if isinstance(node, ast.Lambda) else node.name
        made = f"$p.def({name!r}, {signature}, function{star} ({', '.join(names)}) {{\n{body}\n}})"
        for wrapper in reversed(wrappers):
            made = f"$p.call({wrapper}, {made})"
        return made

    # ---- statements ----

    def block(self, nodes: list[ast.stmt]) -> str:
        return "\n".join(filter(None, (self.statement(node) for node in nodes)))

    def statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Assert():
                return ""
            case ast.ImportFrom() | ast.Import():
                raise self.fail(node, "an import inside a function")
            case ast.Nonlocal() | ast.Global():
                return ""
            case ast.Expr():
                return f"{self.value(node.value)};"
            case ast.Return():
                return f"return {'null' if node.value is None else self.value(node.value)};"
            case ast.Assign():
                if len(node.targets) == 1:
                    return self.assign(node.targets[0], self.value(node.value))
                held = self.fresh("v")
                assignments = " ".join(self.assign(target, held) for target in node.targets)
                return f"const {held} = {self.value(node.value)}; {assignments}"
            case ast.AnnAssign():
                if node.value is None:
                    return ""
                return self.assign(node.target, self.value(node.value))
            case ast.AugAssign():
                operator = _BINARY[type(node.op)]
                old, value = self.value(node.target), self.value(node.value)
                return self.assign(node.target, f"$p.in_place({operator!r}, {old}, {value})")
            case ast.If():
                text = f"if ({self.truth(node.test)}) {{\n{self.block(node.body)}\n}}"
                return text + (f" else {{\n{self.block(node.orelse)}\n}}" if node.orelse else "")
            case ast.For():
                return self.for_(node)
            case ast.While():
                if node.orelse:
                    raise self.fail(node, "while ... else")
                return f"while ({self.truth(node.test)}) {{\n{self.block(node.body)}\n}}"
            case ast.Break():
                return "break;"
            case ast.Continue():
                return "continue;"
            case ast.Raise():
                return self.raise_(node)
            case ast.Try():
                return self.try_(node)
            case ast.With():
                return self.with_(node)
            case ast.Match():
                return self.match(node)
            case ast.FunctionDef():
                return f"{_own(node.name)} = {self.function(node)};"
            case ast.Delete(targets=[ast.Subscript() as target]):
                return f"$p.del({self.value(target.value)}, {self.value(target.slice)});"
        raise self.fail(node)

    def for_(self, node: ast.For) -> str:
        if node.orelse:
            raise self.fail(node, "for ... else")
        held = self.fresh("x")
        return (
            f"for (const {held} of $p.iter({self.value(node.iter)})) {{\n"
            f"{self.assign(node.target, held)}\n{self.block(node.body)}\n}}"
        )

    def raise_(self, node: ast.Raise) -> str:
        if node.exc is None:
            return "throw $error;"
        return f"throw {self.value(node.exc)};"

    def try_(self, node: ast.Try) -> str:
        text = f"try {{\n{self.block(node.body)}\n{self.block(node.orelse)}\n}}"
        if node.handlers:
            text += " catch ($error) {\n$error = $p.caught($error);\n"
            for handler in node.handlers:
                kind = "$p.B.Exception" if handler.type is None else self.value(handler.type)
                named = f"{_own(handler.name)} = $error;\n" if handler.name else ""
                body = named + self.block(handler.body)
                text += f"if ($p.isinstance($error, {kind})) {{\n{body}\n}} else "
            text += "throw $error;\n}"
        if node.finalbody:
            text += f" finally {{\n{self.block(node.finalbody)}\n}}"
        return text

    def with_(self, node: ast.With) -> str:
        text = self.block(node.body)
        for item in reversed(node.items):
            held, failed = self.fresh("c"), self.fresh("e")
            entered = f"$p.enter({held})"
            named = (
                f"{entered};" if item.optional_vars is None
                else self.assign(item.optional_vars, entered)
            )  # fmt: skip
            text = (
                f"const {held} = {self.value(item.context_expr)}; let {failed} = false; {named}\n"
                f"try {{\n{text}\n}} catch ($error) {{ {failed} = true; "
                f"$p.leave({held}, $error); }} "
                f"finally {{ if (!{failed}) $p.leave({held}, null); }}"
            )
        return f"{{\n{text}\n}}"

    def match(self, node: ast.Match) -> str:
        held = self.fresh("m")
        text = f"const {held} = {self.value(node.subject)};\n"
        branches = []
        for case in node.cases:
            test = self.pattern(case.pattern, held)
            if case.guard is not None:
                test = f"{test} && {self.truth(case.guard)}"
            branches.append(f"if ({test}) {{\n{self.block(case.body)}\n}}")
        return "{\n" + text + " else ".join(branches) + "\n}"

    def pattern(self, pattern: ast.pattern, held: str) -> str:
        match pattern:
            case ast.MatchValue():
                return f"$p.eq({held}, {self.value(pattern.value)})"
            case ast.MatchSingleton():
                return f"{held} === {json.dumps(pattern.value)}"
            case ast.MatchOr():
                return "(" + " || ".join(self.pattern(p, held) for p in pattern.patterns) + ")"
            case ast.MatchAs(pattern=None, name=None):
                return "true"
            case ast.MatchSequence():
                size = len(pattern.patterns)
                tests = [f"$p.len({held}) === {size}"]
                tests += [self.pattern(p, f"{held}[{i}]") for i, p in enumerate(pattern.patterns)]
                return "(" + " && ".join(tests) + ")"
        raise self.fail(pattern)

    def assign(self, target: ast.expr, value: str) -> str:
        match target:
            case ast.Name():
                return f"{self.name(target.id)} = {value};"
            case ast.Attribute():
                return f"{self.value(target.value)}.{target.attr} = {value};"
            case ast.Subscript():
                return f"$p.set({self.value(target.value)}, {self.value(target.slice)}, {value});"
            case ast.Tuple() | ast.List():
                if (pattern := self.destructured(target)) is not None:
                    return f"{pattern} = $p.iter({value});"
                held = self.fresh("t")
                star = next(
                    (i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)), -1
                )
                text = f"const {held} = $p.unpack({value}, {len(target.elts)}, {star}); "
                parts = [t.value if isinstance(t, ast.Starred) else t for t in target.elts]
                return text + " ".join(self.assign(t, f"{held}[{i}]") for i, t in enumerate(parts))
        raise self.fail(target)

    def destructured(self, target: ast.expr) -> str | None:
        """The target as a pattern of JavaScript, if it consists of names without a star."""
        if isinstance(target, ast.Name):
            return self.name(target.id)
        if not isinstance(target, ast.Tuple | ast.List):
            return None
        unused = [isinstance(part, ast.Name) and part.id == "_" for part in target.elts]
        parts = [
            "" if skip else self.destructured(part)
            for part, skip in zip(target.elts, unused, strict=True)
        ]
        known = [part for part in parts if part is not None]
        return f"[{', '.join(known)}]" if len(known) == len(parts) else None

    def target(self, target: ast.expr) -> str:
        return self.name(target.id) if isinstance(target, ast.Name) else ""

    # ---- expressions ----

    def name(self, name: str) -> str:
        if any(name in scope for scope in self.scopes):
            return _own(name)
        meaning = self.program.resolve(self.module, name)
        if isinstance(meaning, Place):
            return self.program.written(meaning)
        return meaning if meaning is not None else f"$p.B.{name}"

    def truth(self, node: ast.expr) -> str:
        match node:
            case ast.Compare() if len(node.ops) == 1:
                if not isinstance(
                    node.ops[0], ast.Eq | ast.NotEq | ast.Lt | ast.Gt | ast.LtE | ast.GtE
                ):
                    return self.value(node)
            case ast.UnaryOp(op=ast.Not()):
                return self.value(node)
            case ast.BoolOp():
                sign = " && " if isinstance(node.op, ast.And) else " || "
                return "(" + sign.join(self.truth(v) for v in node.values) + ")"
        return f"$p.truth({self.value(node)})"

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.name(node.id)
            case ast.NamedExpr():
                return f"({self.name(node.target.id)} = {self.value(node.value)})"
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.BinOp():
                name = _BINARY[type(node.op)]
                return f"$p.{name}({self.value(node.left)}, {self.value(node.right)})"
            case ast.UnaryOp(op=ast.Not()):
                return f"!{self.truth(node.operand)}"
            case ast.UnaryOp():
                return f"$p.{_UNARY[type(node.op)]}({self.value(node.operand)})"
            case ast.BoolOp():
                kind = "andThen" if isinstance(node.op, ast.And) else "orElse"
                text = self.value(node.values[-1])
                for value in reversed(node.values[:-1]):
                    text = f"$p.{kind}({self.value(value)}, () => {text})"
                return text
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp():
                test, other = self.truth(node.test), self.value(node.orelse)
                return f"({test} ? {self.value(node.body)} : {other})"
            case ast.Subscript():
                if isinstance(node.value, ast.Name) and node.value.id == "Literal":
                    return self.value(node.slice)
                return f"$p.get({self.value(node.value)}, {self.value(node.slice)})"
            case ast.Slice():
                parts = (node.lower, node.upper, node.step)
                return (
                    f"$p.slice({', '.join('null' if p is None else self.value(p) for p in parts)})"
                )
            case ast.Tuple():
                return f"$p.tuple([{self.items(node.elts)}])"
            case ast.List():
                return f"[{self.items(node.elts)}]"
            case ast.Set():
                return f"$p.call($p.B.set, [{self.items(node.elts)}])"
            case ast.Dict():
                pairs = (
                    f"...$p.pairs({self.value(v)})" if k is None
                    else f"[{self.value(k)}, {self.value(v)}]"
                    for k, v in zip(node.keys, node.values, strict=True)
                )  # fmt: skip
                return f"$p.dict([{', '.join(pairs)}])"
            case ast.JoinedStr():
                pieces = [self.piece(part) for part in node.values]
                return "(" + " + ".join(pieces or ['""']) + ")"
            case ast.Lambda():
                return self.function(node)
            case ast.ListComp():
                return f"[...{self.comprehension(node.generators, node.elt)}]"
            case ast.SetComp():
                return f"$p.call($p.B.set, {self.comprehension(node.generators, node.elt)})"
            case ast.GeneratorExp():
                return self.comprehension(node.generators, node.elt)
            case ast.DictComp():
                pair = ast.List([node.key, node.value], ast.Load())
                return f"$p.dict({self.comprehension(node.generators, pair)})"
            case ast.Starred():
                return f"...$p.iter({self.value(node.value)})"
            case ast.Yield():
                return f"(yield {'null' if node.value is None else self.value(node.value)})"
            case ast.YieldFrom():
                return f"(yield* $p.iter({self.value(node.value)}))"
        raise self.fail(node)

    def items(self, nodes: list[ast.expr]) -> str:
        return ", ".join(self.value(node) for node in nodes)

    def constant(self, node: ast.Constant) -> str:
        value: Any = node.value
        if value is Ellipsis:
            return "$p.Ellipsis"
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
            return f"{int(value)}"
        if isinstance(value, int | float) and not isinstance(value, bool):
            return repr(value)
        return json.dumps(value, ensure_ascii=False)

    def piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return self.constant(node)
        assert isinstance(node, ast.FormattedValue)
        spec = '""' if node.format_spec is None else self.value(node.format_spec)
        if node.conversion == -1:
            parameters = self.value(node.value) + ("" if node.format_spec is None else f", {spec}")
            return f"$p.format({parameters})"
        return f"$p.format({self.value(node.value)}, {spec}, {chr(node.conversion)!r})"

    def attribute(self, node: ast.Attribute) -> str:
        meaning = self.dotted(node)
        if meaning is not None:
            return meaning
        return f"$p.attr({self.value(node.value)}, {node.attr!r})"

    def dotted(self, node: ast.Attribute) -> str | None:
        """A name of another module, if the node is one."""
        if isinstance(node.value, ast.Attribute):
            outer = self.dotted(node.value)
            return None if outer is None or "$p.attr" in outer else f"{outer}.{node.attr}"
        if not isinstance(node.value, ast.Name) or node.value.id not in self.module.imports:
            return None
        if any(node.value.id in scope for scope in self.scopes):
            return None
        meaning = self.program.resolve(self.module, node.value.id)
        if isinstance(meaning, Place) or meaning is None:
            return None
        if meaning.startswith("module:"):
            inner = self.program.dotted(self.module, node)
            return self.program.written(inner) if isinstance(inner, Place) else inner
        return f"{meaning}.{node.attr}"

    def call(self, node: ast.Call) -> str:
        arguments = [self.value(a) for a in node.args]
        if node.keywords:
            pairs = (
                f"...$p.keywords({self.value(k.value)})" if k.arg is None
                else f"{json.dumps(k.arg)}: {self.value(k.value)}"
                for k in node.keywords
            )  # fmt: skip
            arguments.append(f"$p.named({{{', '.join(pairs)}}})")
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[])):
                head = [self.owner, "self", repr(node.func.attr)]
                return f"$p.above({', '.join([*head, *arguments])})"
            case ast.Attribute():
                if self.dotted(node.func) is None:
                    head = [self.value(node.func.value), repr(node.func.attr)]
                    return f"$p.method({', '.join([*head, *arguments])})"
        return f"$p.call({', '.join([self.value(node.func), *arguments])})"

    def compare(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        tests = [
            f"$p.{_COMPARED[type(op)]}({self.value(a)}, {self.value(b)})"
            for op, a, b in zip(node.ops, sides, sides[1:], strict=False)
        ]
        if len(tests) == 1:
            return tests[0]
        return "(" + " && ".join(f"$p.truth({test})" for test in tests) + ")"

    def comprehension(self, generators: list[ast.comprehension], element: ast.expr) -> str:
        """A generator of the elements."""
        self.scopes.append(set())
        opened, first = [], self.value(generators[0].iter)
        outer = self.fresh("i")
        for i, generator in enumerate(generators):
            values = outer if i == 0 else f"$p.iter({self.value(generator.iter)})"
            names = list(dict.fromkeys(names_in(generator.target)))
            self.scopes[-1] |= set(names)
            if (pattern := self.destructured(generator.target)) is not None:
                opened.append(f"for (const {pattern} of {values}) {{")
            else:
                held = self.fresh("x")
                declared = f"let {', '.join(_own(n) for n in names)};"
                assigned = self.assign(generator.target, held)
                opened.append(f"for (const {held} of {values}) {{ {declared} {assigned}")
            opened += [f"if ({self.truth(test)}) {{" for test in generator.ifs]
        body = f"yield {self.value(element)};"
        braces = len(generators) + sum(len(g.ifs) for g in generators)
        self.scopes.pop()
        inside = " ".join([*opened, body, "}" * braces])
        return f"(function* ({outer}) {{ {inside} }})($p.iter({first}))"


def _assigned(body: list[ast.stmt]) -> set[str]:
    """The names that a function assigns, without those of functions inside it."""
    names: set[str] = set()
    outside: set[str] = set()

    def visit(node: ast.AST) -> None:
        match node:
            case ast.FunctionDef():
                names.add(node.name)
                return
            case ast.Lambda():
                return
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for inner in ast.walk(node):
                    if isinstance(inner, ast.NamedExpr):
                        names.add(inner.target.id)
                return
            case ast.Nonlocal() | ast.Global():
                outside.update(node.names)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for node in body:
        visit(node)
    return names - outside


def _yields(body: list[ast.stmt]) -> bool:
    def visit(node: ast.AST) -> bool:
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.GeneratorExp):
            return False
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        return any(visit(child) for child in ast.iter_child_nodes(node))

    return any(visit(node) for node in body)


def _is_known(decorator: ast.expr) -> bool:
    text = ast.unparse(decorator)
    return text in (*_KINDS, "torch.no_grad()") or "cache" in text


def _is_typing(base: ast.expr) -> bool:
    return ast.unparse(base).partition("[")[0] in (
        "Protocol",
        "Generic",
        "Mapping",
        "ABC",
        "NamedTuple",
    )
