"""Writes what each release's `vllm serve` accepts: `python -m tests.oracle.arguments FOLDER`.

FOLDER holds one unpacked wheel per release: ``FOLDER/0.32.0/vllm/...``. Only source text is read: the calls
of ``add_argument`` in ``make_arg_parser`` and in ``add_cli_args``, and the fields of the config classes whose
types the parser turns into types of arguments. Nothing of the release is imported or run.

The result is ``service/engines/arguments/arguments.toml`` and ``environment.toml``.
"""

import argparse
import ast
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from service.engines.releases import RELEASES

TARGET: Final = Path(__file__).parents[2] / "service" / "engines" / "arguments"
PARSERS: Final = (
    "entrypoints/common/cli_args.py",
    "entrypoints/launchers/cli_args.py",
    "entrypoints/openai/cli_args.py",
)
"""Where ``make_arg_parser`` of `vllm serve` stands, newest place first."""
WIDTH: Final = 110
ARGUMENTS_HEAD: Final = """\
# The arguments of `vllm serve`, release by release, read in the source of each: make_arg_parser
# (entrypoints), EngineArgs and AsyncEngineArgs.add_cli_args (engine/arg_utils.py), the config classes.
# Written by tests/oracle/arguments.py; do not edit.
#
# A state holds from its release until the next one; kind = "none": the release has no such argument.
# default: JSON; absent where the release computes it. nullable: the word None is accepted for no value.
# also: other spellings. items: the type of the items of a list.
# folded: a value is put in lower case with underscores before it is compared with the choices.
"""
VARIABLES_HEAD: Final = """\
# The environment variables that each release reads, from its envs.py.
# Written by tests/oracle/arguments.py; do not edit.
#
# since: releases that brought it; until: releases without it again.
"""
_NONE: Final = "None"
_GONE: Final = '{ kind = "none" }'
_UNKNOWN: Final = object()
_REMOVED: Final = "choices.remove"
_PAIRED: Final = "choices.pairs"


@dataclass(frozen=True, slots=True)
class Entry:
    """One argument of one release. ``default`` is JSON; None where the release computes it."""

    kind: str
    default: str | None = None
    items: str = ""
    also: tuple[str, ...] = ()
    nullable: bool = False
    folded: bool = False
    deprecated: bool = False
    choices: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(slots=True)
class Source:
    """The parts of a release's source text that its parser is made of."""

    root: Path
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)
    """Names that modules assign: aliases of types, constants."""
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    """Modules of the release from which names are imported, by name."""
    starred: list[str] = field(default_factory=list)
    """Modules from which all names are imported."""

    @classmethod
    def read(cls, root: Path) -> "Source":
        """Read the modules that define arguments."""
        source = cls(root)
        config = root / "config"
        modules = sorted(config.rglob("*.py")) if config.is_dir() else []
        for path in [*modules, root / "engine" / "arg_utils.py", source.parser_path()]:
            source._module(path)
        source.starred.clear()
        return source

    def parser_path(self) -> Path:
        """Return the module with ``make_arg_parser``."""
        for name in PARSERS:
            path = self.root / name
            if path.exists() and "def make_arg_parser" in path.read_text("utf-8"):
                return path
        raise FileNotFoundError(f"{self.root}: no make_arg_parser")

    def _module(self, path: Path) -> None:
        package = ["vllm", *path.relative_to(self.root).parts[:-1]]
        for node in _statements(ast.parse(path.read_text("utf-8")).body):
            match node:
                case ast.ImportFrom(module=module, names=names, level=level):
                    if not level and not (module or "").startswith("vllm"):
                        continue
                    parts = package[: len(package) - level + 1] if level else []
                    origin = ".".join([*parts, *([module] if module else [])])
                    self.imported.update({each.asname or each.name: origin for each in names})
                    if self.imported.pop("*", None):
                        self.starred.append(origin)
                case ast.ClassDef():
                    self.classes[node.name] = node
                case ast.FunctionDef():
                    self.functions[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.values[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.values[name] = value

    def _find(self, name: str) -> None:
        """Read the module that a name is imported from, where the name is not known yet."""
        while name not in self.values and name not in self.classes:
            module = self.imported.pop(name, "") or (self.starred.pop() if self.starred else "")
            if not module:
                return
            base = self.root.joinpath(*module.split(".")[1:])
            path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            if path.exists():
                classes, values, functions = dict(self.classes), dict(self.values), dict(self.functions)
                self._module(path)
                self.classes.update(classes)
                self.values.update(values)
                self.functions.update(functions)

    def fields(self, name: str) -> Mapping[str, tuple[ast.expr, ast.expr | None]]:
        """Return a config class's fields by name: annotation and default; the fields of its bases first."""
        node = self.classes[name]
        found: dict[str, tuple[ast.expr, ast.expr | None]] = {}
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in self.classes:
                found.update(self.fields(base.id))
        for each in node.body:
            match each:
                case ast.AnnAssign(target=ast.Name(id=field_), annotation=annotation, value=value):
                    if not any(word in ast.unparse(annotation) for word in ("ClassVar", "InitVar")):
                        found[field_] = (annotation, value)
        return found

    def is_record(self, name: str) -> bool:
        """Whether a class is a dataclass, whose fields a JSON value may have."""
        node = self.classes.get(name)
        return node is not None and any(
            "dataclass" in ast.unparse(each) or ast.unparse(each).startswith("config")
            for each in node.decorator_list
        )

    def hints(self, annotation: ast.expr) -> Iterator[ast.expr]:  # noqa: C901 - one case for each form
        """Yield the members of an annotation: of its unions, without what ``Annotated`` adds."""
        match annotation:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                yield from self.hints(left)
                yield from self.hints(right)
            case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
                yield from self.hints(inner)
                yield ast.Constant(None)
            case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=members)):
                for member in members:
                    yield from self.hints(member)
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=members)):
                yield from self.hints(members[0])
            case ast.Constant(value=str() as text):
                yield from self.hints(ast.parse(text, mode="eval").body)
            case ast.Name(id="SkipValidation") | ast.Subscript(value=ast.Name(id="SkipValidation")):
                if isinstance(annotation, ast.Subscript):
                    yield from self.hints(annotation.slice)
            case ast.Name(id=name) if name not in _BUILT_IN:
                self._find(name)
                if name in self.values and name not in self.classes:
                    yield from self.hints(self.values[name])
                else:
                    yield annotation
            case _:
                yield annotation

    def literal(self, hint: ast.expr) -> list[Any] | None:
        """Return the members of a ``Literal``; None if it is none."""
        match hint:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=members)):
                return [value for member in members for value in self._members(member)]
            case ast.Subscript(value=ast.Name(id="Literal"), slice=member):
                return self._members(member)
        return None

    def _members(self, member: ast.expr) -> list[Any]:
        inner = list(self.hints(member)) if isinstance(member, ast.Name) else [member]
        found: list[Any] = []
        for each in inner:
            nested = self.literal(each)
            found.extend(nested if nested is not None else [ast.literal_eval(each)])
        return found

    def value(self, node: ast.expr | None) -> Any:  # noqa: ANN401, PLR0911 - any literal
        """Return a default's value; ``_UNKNOWN`` where the release computes it."""
        match node:
            case None:
                return _UNKNOWN
            case ast.Call(func=ast.Name(id="Field" | "field"), args=arguments, keywords=words):
                named = {word.arg: word.value for word in words}
                if "default" in named or arguments:
                    return self.value(named.get("default", arguments[0] if arguments else None))
                factory = named.get("default_factory")
                return self._made(factory)
            case ast.Name(id=name):
                self._find(name)
                return self.value(self.values[name]) if name in self.values else _UNKNOWN
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                self._find(name)
                return self._of_class(name, attribute) if name in self.classes else _UNKNOWN
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            return _number(node)

    def _made(self, factory: ast.expr | None) -> Any:  # noqa: ANN401 - any literal
        match factory:
            case ast.Name(id="list"):
                return []
            case ast.Name(id="dict"):
                return {}
            case ast.Lambda(body=body):
                return self.value(body)
        return _UNKNOWN

    def _of_class(self, name: str, attribute: str) -> Any:  # noqa: ANN401 - any literal
        fields_ = self.fields(name)
        if attribute in fields_:
            return self.value(fields_[attribute][1])
        for each in self.classes[name].body:  # a member of an enumeration
            match each:
                case ast.Assign(targets=[ast.Name(id=member)], value=value) if member == attribute:
                    return self.value(value)
        return _UNKNOWN


_BUILT_IN: Final = frozenset({"int", "float", "str", "bool", "dict", "list", "set", "tuple"})


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements of a module; of a condition, what stands where types are not being checked.

    At run time the parser sees the names of the ``else`` branch, such as ``LoadFormats = str``.
    """
    for node in body:
        if isinstance(node, ast.If):
            checking = ast.unparse(node.test) == "TYPE_CHECKING"
            yield from _statements(node.orelse if checking else [*node.body, *node.orelse])
        else:
            yield node


def _number(node: ast.expr) -> Any:  # noqa: ANN401 - a number or _UNKNOWN
    """Return what a product or power of numbers comes to."""
    match node:
        case ast.BinOp(
            left=ast.Constant(value=int() as left), op=ast.Mult(), right=ast.Constant(value=int() as right)
        ):
            return left * right
        case ast.BinOp(
            left=ast.Constant(value=int() as left), op=ast.Pow(), right=ast.Constant(value=int() as right)
        ):
            return left**right
    return _UNKNOWN


class Parser:
    """Follows the functions that build a release's parser."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.entries: dict[str, Entry] = {}
        kwargs = source.functions.get("_compute_kwargs") or source.functions["get_kwargs"]
        text = ast.unparse(kwargs)
        self._human = (
            {
                each.value
                for each in ast.walk(kwargs)
                if isinstance(each, ast.Constant)
                and isinstance(each.value, str)
                and each.value.isidentifier()
            }
            if "human_readable_int" in text
            else set()
        )
        self._auto = "human_readable_int_or_auto" in text
        self._optional_value = "'?'" in text

    def read(self) -> Mapping[str, Entry]:
        """Return the arguments of `vllm serve` by their names, with underscores."""
        self._calls(self._source.functions["make_arg_parser"], {})
        name = "FrontendArgs"
        overrides = self._overrides([name, *self._bases(name)])
        for key in self._source.fields(name):
            self._put([f"--{key}"], self._field(name, key, overrides.get(key, {})))
        for each in ("EngineArgs", "AsyncEngineArgs"):
            method = _method(self._source.classes[each], "add_cli_args")
            self._calls(method, self._tables(method))
        return self.entries

    def _bases(self, name: str) -> list[str]:
        return [each.id for each in self._source.classes[name].bases if isinstance(each, ast.Name)]

    def _overrides(self, names: Iterable[str]) -> dict[str, dict[str, ast.expr | None]]:
        found: dict[str, dict[str, ast.expr | None]] = {}
        for name in names:
            for method in self._source.classes[name].body:
                if isinstance(method, ast.FunctionDef):
                    for (_, key), changed in _changes(method).items():
                        found.setdefault(key, {}).update(changed)
        return found

    def _tables(self, method: ast.FunctionDef) -> dict[str, str]:
        """Return the config class of each table of arguments."""
        tables = {}
        for node in ast.walk(method):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=table)],
                    value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=name)]),
                ):
                    tables[table] = name
        return tables

    def _calls(self, method: ast.FunctionDef, tables: Mapping[str, str]) -> None:
        aliases = _aliases(method)
        loops = {
            id(call): loop
            for loop in ast.walk(method)
            if isinstance(loop, ast.For)
            for call in ast.walk(loop)
            if isinstance(call, ast.Call)
        }
        for node in ast.walk(method):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr != "add_argument":
                continue
            loop = loops.get(id(node))
            if loop is not None:
                self._loop(loop)
                continue
            flags = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if not str(flags[0]).startswith("-"):
                continue  # the model, which has a place rather than a name
            before = _changes(method, node.lineno)
            self._put([str(each) for each in flags], self._call(node, tables, before, aliases))

    def _loop(self, loop: ast.For) -> None:
        """Read arguments that are added one by one from a list: names with types."""
        if not isinstance(loop.iter, ast.List):
            return  # FrontendArgs' own fields
        for each in loop.iter.elts:
            assert isinstance(each, ast.Tuple)
            name, kind = each.elts
            assert isinstance(name, ast.Constant)
            self._put([str(name.value)], Entry(ast.unparse(kind), "null", deprecated=True))

    def _call(
        self,
        call: ast.Call,
        tables: Mapping[str, str],
        changes: Mapping[tuple[str, str], dict[str, ast.expr | None]],
        aliases: Mapping[str, tuple[str, str]],
    ) -> Entry:
        words: dict[str, ast.expr | None] = {word.arg: word.value for word in call.keywords if word.arg}
        spread = [word.value for word in call.keywords if word.arg is None]
        place: tuple[str, str] | None = None
        match spread:
            case [ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=key))]:
                place = (table, str(key))
            case [ast.Name(id=alias)]:
                place = aliases[alias]
            case [ast.Dict(keys=[None, *keys], values=[ast.Subscript() as value, *rest])]:
                place = _place(value)
                words |= {
                    str(ast.literal_eval(key)): each for key, each in zip(keys, rest, strict=True) if key
                }
            case [_]:
                raise NotImplementedError(ast.unparse(call))
        if place is None:
            return self._changed(Entry("str", "null"), words)
        return self._field(tables.get(place[0], place[0]), place[1], {**changes.get(place, {}), **words})

    def _field(self, owner: str, key: str, words: Mapping[str, ast.expr | None]) -> Entry:
        annotation, default = self._source.fields(owner)[key]
        return self._changed(self._typed(key, annotation, default), words)

    def _typed(self, name: str, annotation: ast.expr, default: ast.expr | None) -> Entry:  # noqa: PLR0911
        """Return what ``get_kwargs`` makes of a field."""
        hints = list(self._source.hints(annotation))
        texts = [ast.unparse(each) for each in hints]
        nullable = _NONE in texts
        value = _json(self._source.value(default))
        record = next((text for text in texts if self._source.is_record(text)), None)
        heads = {text.partition("[")[0] for text in texts}
        if record is not None:
            return Entry("json", value, nullable=nullable, keys=tuple(self._source.fields(record)))
        if set(texts) == {"bool", "str", _NONE} and self._optional_value:
            return Entry("optional_str", value)
        if "bool" in heads:
            return Entry("bool", value)
        if (
            members := next((found for each in hints if (found := self._source.literal(each))), None)
        ) is not None:
            kind = type(members[0]).__name__
            choices = () if "str" in heads else tuple(str(each) for each in members)
            return Entry(kind, value, nullable=nullable, choices=choices)
        for head in ("tuple", "list", "set"):
            if head in heads:
                return self._collection(
                    next(each for each, text in zip(hints, texts, strict=True) if text.startswith(head)),
                    value,
                    nullable=nullable,
                )
        if "int" in heads:
            return Entry(self._int(name), value, nullable=nullable)
        if "float" in heads:
            return Entry("float", value, nullable=nullable)
        if "dict" in heads or any(self._is_dict(head) for head in heads):
            plain = heads <= {"dict", _NONE} or any(self._is_dict(head) for head in heads)
            return Entry("json" if plain else "json_or_str", value, nullable=nullable)
        return Entry("str", value, nullable=nullable)

    def _is_dict(self, head: str) -> bool:
        node = self._source.classes.get(head)
        return node is not None and any(ast.unparse(each).startswith("dict") for each in node.bases)

    def _int(self, name: str) -> str:
        if name not in self._human:
            return "int"
        return "human_int_or_auto" if name == "max_model_len" and self._auto else "human_int"

    def _collection(self, hint: ast.expr, value: str | None, *, nullable: bool) -> Entry:
        choices: tuple[str, ...] = ()
        item = "str"
        if isinstance(hint, ast.Subscript):
            first = hint.slice.elts[0] if isinstance(hint.slice, ast.Tuple) else hint.slice
            members = [found for each in self._source.hints(first) if (found := self._source.literal(each))]
            texts = [ast.unparse(each) for each in self._source.hints(first)]
            if members:
                item, choices = type(members[0][0]).__name__, tuple(str(each) for each in members[0])
            elif texts[0] in {"int", "float"} and len(texts) == 1:
                item = texts[0]
        return Entry("list", value, items=item, nullable=nullable, choices=choices)

    def _changed(self, entry: Entry, words: Mapping[str, ast.expr | None]) -> Entry:
        """Return an entry with the keywords of its call laid over it."""
        values: dict[str, Any] = {name: getattr(entry, name) for name in Entry.__dataclass_fields__}
        texts = {name: ast.unparse(node) for name, node in words.items() if node is not None}
        values |= _action(texts.get("action", ""))
        if "type" in texts:
            values |= _type(texts["type"], values)
        if "nargs" in words:
            values |= {"kind": "optional_str"} if texts.get("nargs") == "'?'" else {"items": ""}
        if "default" in texts:
            values["default"] = _json(self._source.value(words["default"]))
        if (choices := words.get("choices")) is not None:
            values["choices"] = self._choices(choices)
        if _REMOVED in words:
            gone = self._source.value(words[_REMOVED])
            values["choices"] = tuple(each for each in values["choices"] if each != gone)
        if _PAIRED in words:
            pairs = permutations(values["choices"], 2)
            values["choices"] = (*values["choices"], *(",".join(pair) for pair in pairs))
        values["deprecated"] |= "deprecated" in words or "DEPRECATED" in texts.get("help", "").upper()
        return Entry(**values)

    def _choices(self, node: ast.expr) -> tuple[str, ...]:
        match node:
            case ast.List(elts=members):
                return tuple(str(ast.literal_eval(each)) for each in members)
            case ast.Call(func=ast.Name(id="get_args"), args=[ast.Name() as name]):
                return tuple(
                    str(each)
                    for hint in self._source.hints(name)
                    for each in self._source.literal(hint) or ()
                )
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return (*self._choices(left), *self._choices(right))
        return ()

    def _put(self, flags: list[str], entry: Entry) -> None:
        name = next(each for each in flags if each.startswith("--"))
        also = tuple(each for each in flags if each != name)
        values = {each: getattr(entry, each) for each in Entry.__dataclass_fields__}
        self.entries[name.lstrip("-").replace("-", "_")] = Entry(**{**values, "also": also})


def _action(text: str) -> dict[str, Any]:
    if "BooleanOptionalAction" in text:
        return {"kind": "bool"}
    if text == "'store_true'":
        return {"kind": "switch", "default": "false"}
    return {"kind": "append", "items": "str"} if text == "'append'" else {}


def _type(text: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if "json.loads" in text:
        return {"kind": "json", "nullable": "optional" in text, "items": "", "choices": ()}
    if text in {"int", "float", "str"}:
        return {"kind": text} if values["kind"] != "append" else {}
    if "lower" in text and "replace" in text:
        return {"folded": True}
    if text == "optional_type(str)":
        return {"kind": "list" if values["kind"] == "list" else "str", "nullable": True}
    if "isdigit" in text or text == "parse_reasoning_parser":
        return {"kind": "str"}
    raise NotImplementedError(text)


def _place(node: ast.Subscript) -> tuple[str, str]:
    """Return the table and the key of ``table["key"]``."""
    match node:
        case ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str() as key)):
            return table, key
    raise NotImplementedError(ast.unparse(node))


def _aliases(method: ast.FunctionDef) -> dict[str, tuple[str, str]]:
    """Return names that stand for one argument of a table."""
    found = {}
    for node in ast.walk(method):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=alias)],
                value=ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str() as key)),
            ):
                found[alias] = (table, key)
            case ast.Assign(
                targets=[ast.Name(id=alias)],
                value=ast.Subscript(
                    value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=owner)]),
                    slice=ast.Constant(value=str() as key),
                ),
            ):
                found[alias] = (owner, key)
    return found


def _changes(
    method: ast.FunctionDef, before: float = math.inf
) -> dict[tuple[str, str], dict[str, ast.expr | None]]:
    """Return the keywords that a function sets, or deletes (None), in tables of arguments before a line."""
    aliases = _aliases(method)
    found: dict[tuple[str, str], dict[str, ast.expr | None]] = {}
    for node in ast.walk(method):
        if getattr(node, "lineno", 0) >= before:
            continue
        match node:
            case ast.Assign(
                targets=[
                    ast.Subscript(
                        value=ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str() as key)),
                        slice=ast.Constant(value=str() as word),
                    )
                ],
                value=value,
            ):
                found.setdefault((table, key), {})[word] = value
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=alias), slice=ast.Constant(value=str() as word))],
                value=value,
            ) if alias in aliases:
                found.setdefault(aliases[alias], {})[word] = value
            case ast.AugAssign(
                target=ast.Subscript(
                    value=ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str() as key)),
                    slice=ast.Constant(value="choices"),
                ),
                value=value,
            ) if "permutations" in ast.unparse(value):
                found.setdefault((table, key), {})[_PAIRED] = value
            case ast.Delete(
                targets=[
                    ast.Subscript(
                        value=ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str() as key)),
                        slice=ast.Constant(value=str() as word),
                    )
                ]
            ):
                found.setdefault((table, key), {})[word] = None
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Subscript(
                        value=ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str() as key)),
                        slice=ast.Constant(value="choices"),
                    ),
                    attr="remove",
                ),
                args=[value],
            ):
                found.setdefault((table, key), {})[_REMOVED] = value
    return found


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef:
    return next(each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == name)


def _json(value: object) -> str | None:
    if value is _UNKNOWN:
        return None
    try:
        return json.dumps(sorted(value) if isinstance(value, set) else value)
    except TypeError:
        return None


def variables(root: Path) -> tuple[str, ...]:
    """Return the names of the environment variables that a release reads, from ``envs.py``."""
    tree = ast.parse((root / "envs.py").read_text("utf-8"))
    for node in tree.body:
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id="environment_variables"), value=ast.Dict(keys=keys))
                | ast.Assign(targets=[ast.Name(id="environment_variables")], value=ast.Dict(keys=keys))
            ):
                return tuple(sorted(str(ast.literal_eval(key)) for key in keys if key is not None))
    raise LookupError(f"{root}: no environment_variables")


def _inline(entry: Entry) -> str:
    parts = [f"kind = {json.dumps(entry.kind)}"]
    if entry.default is not None:
        parts.append(f"default = {_quoted(entry.default)}")
    if entry.items:
        parts.append(f"items = {json.dumps(entry.items)}")
    if entry.also:
        parts.append(f"also = {json.dumps(list(entry.also))}")
    parts.extend(f"{name} = true" for name in ("nullable", "folded", "deprecated") if getattr(entry, name))
    return "{ " + ", ".join(parts) + " }"


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else json.dumps(text)


def listed(members: Iterable[str]) -> Iterator[str]:
    line = "  "
    for member in members:
        word = f"{json.dumps(member)}, "
        if len(line) + len(word) > WIDTH:
            yield line.rstrip()
            line = "  "
        line += word
    if line.strip():
        yield line.rstrip()


def _dated(states: Iterable[tuple[Version, Any]]) -> Iterator[tuple[Version, Any]]:
    previous: Any = None
    for release, state in states:
        if state != previous:
            yield release, state
        previous = state


def write_arguments(tables: Mapping[Version, Mapping[str, Entry]]) -> Iterator[str]:
    """Yield the lines of ``arguments.toml``."""
    yield from ARGUMENTS_HEAD.splitlines()
    names = sorted({name for table in tables.values() for name in table})
    for name in names:
        yield from ("", f"[arguments.{name}]")
        states = ((release, table.get(name)) for release, table in tables.items())
        plain = ((release, None if state is None else _inline(state)) for release, state in states)
        for release, text in _dated(plain):
            yield f'"{release}" = {text or _GONE}'
    for part in ("choices", "keys"):
        for name in names:
            listed = [
                (release, () if (state := table.get(name)) is None else getattr(state, part))
                for release, table in tables.items()
            ]
            if not any(members for _, members in listed):
                continue
            yield from ("", f"[{part}.{name}]")
            yield from listed_changes(listed)


def listed_changes(states: Iterable[tuple[Version, tuple[str, ...]]]) -> Iterator[str]:
    """Yield which members of a list each release adds and removes."""
    before: tuple[str, ...] = ()
    for release, members in states:
        added = [each for each in members if each not in before]
        removed = [each for each in before if each not in members]
        for word, changed in (("add", added), ("remove", removed)):
            if changed:
                yield f'"{release}".{word} = ['
                yield from listed(changed)
                yield "]"
        before = members


def write_variables(named: Mapping[Version, Iterable[str]]) -> Iterator[str]:
    """Yield the lines of ``variables.toml``."""
    yield from VARIABLES_HEAD.splitlines()
    releases = list(named)
    sets = {release: set(names) for release, names in named.items()}
    yield ""
    for name in sorted(set().union(*sets.values())):
        here = [name in sets[release] for release in releases]
        edges = [
            (release, now)
            for release, now, before in zip(releases, here, [False, *here], strict=False)
            if now != before
        ]
        since = [str(release) for release, now in edges if now]
        until = [str(release) for release, now in edges if not now]
        ending = f", until = {json.dumps(until)}" if until else ""
        yield f"{name} = {{ since = {json.dumps(since)}{ending} }}"


def main() -> None:
    """Read every release in the folder and write the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    if absent := [str(release) for release in RELEASES if not (folder / str(release) / "vllm").is_dir()]:
        raise SystemExit(f"{folder} lacks {', '.join(absent)}")
    roots = {release: folder / str(release) / "vllm" for release in RELEASES}
    tables = {release: Parser(Source.read(root)).read() for release, root in roots.items()}
    named = {release: variables(root) for release, root in roots.items()}
    (TARGET / "arguments.toml").write_text("\n".join(write_arguments(tables)) + "\n", "utf-8")
    (TARGET / "variables.toml").write_text("\n".join(write_variables(named)) + "\n", "utf-8")
    for release, table in tables.items():
        sys.stdout.write(f"{release}: {len(table)} arguments, {len(named[release])} variables\n")


if __name__ == "__main__":
    main()
