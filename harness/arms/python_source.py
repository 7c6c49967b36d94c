"""Python source as Python takes it, and which Python it needs where this one does not take it."""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from traceback import walk_tb
from types import FrameType

from stepbench_core.errors import InputError

_Tokens = Sequence[tokenize.TokenInfo]
Version = tuple[int, int]

_HERE: Version = sys.version_info[:2]
_SKIPPED = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)
# Names of the standard library that came with a version, by their module; empty for all of it.
_LIBRARY: dict[tuple[str, str], Version] = {
    **dict.fromkeys((("typing", "override"), ("typing", "TypeAliasType")), (3, 12)),
    **dict.fromkeys((("itertools", "batched"), ("collections.abc", "Buffer")), (3, 12)),
    **dict.fromkeys((("typing", "TypeIs"), ("typing", "ReadOnly"), ("copy", "replace")), (3, 13)),
    **dict.fromkeys((("warnings", "deprecated"), ("typing", "NoDefault")), (3, 13)),
    **dict.fromkeys(
        (("annotationlib", ""), ("compression", ""), ("string.templatelib", "")), (3, 14)
    ),
    ("concurrent.interpreters", ""): (3, 14),
}


def decode(data: bytes, where: str) -> str:
    """Return the text of a source: by its byte order mark or encoding cookie, else UTF-8.

    Ends of lines are line feeds afterwards.

    Args:
        data: what the file holds.
        where: what to call it in a message.

    Raises:
        InputError: it is no text in its encoding, or needs a newer Python.
    """
    encoding = "utf-8"
    try:
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError as error:
            data.decode()  # Says where, if it is that.
            raise InputError(f"{where}: it is not Python source: {error}") from None
        text = io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except LookupError as error:  # An encoding of no text.
        raise InputError(f"{where}: it is not Python source: {error}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        words = f"it is not text in {encoding} (line {line}); name its encoding in line 1"
        raise InputError(f"{where}: {words}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{where}: it is not Python source: a null byte in line {line}")
    found = needed_python(text)
    if found is not None:
        version, line, what = found
        raise InputError(f"{where}: {_words(version)}: {what} in line {line}{_but()}")
    return text


def lines_of(text: str) -> list[str]:
    """Return the lines as Python counts them: a form feed ends none."""
    return io.StringIO(text).readlines()


def needed_python(text: str) -> tuple[Version, int, str] | None:
    """Return the Python that a source needs, if that is why this one does not take it.

    Returns:
        The version, the line and what is there that needs it; None where this Python takes the
        source, or none does.
    """
    try:
        ast.parse(text)
    except SyntaxError as error:
        found = [one for one in _features(text, error) if one[0] > _HERE]
        return max(found, key=lambda one: (one[0], -one[1]), default=None)
    except (ValueError, RecursionError):
        return None
    return None


def needed_at_import(error: BaseException, text: str, file: str) -> str:
    """Return which Python an error at import says is needed; empty where it says nothing of it.

    For names that the standard library got later, and for annotations with names that are bound
    further down, which Python 3.14 evaluates when they are asked for.

    Args:
        error: what was raised.
        text: the source.
        file: what it is called in a traceback.
    """
    name = getattr(error, "name", None) or ""
    lines = [line for frame, line in walk_tb(error.__traceback__) if _file(frame) == file]
    where = f" in line {lines[-1]}" if lines else ""
    if isinstance(error, NameError) and lines and _is_annotation(text, name, lines[-1]):
        what = f"an annotation{where} names {name}, which is bound elsewhere"
        return f"{_words((3, 14))}: {what}{_but()}" if _HERE < (3, 14) else ""
    if isinstance(error, ModuleNotFoundError):
        for (module, inner), version in _LIBRARY.items():
            if not inner and version > _HERE and f"{name}.".startswith(f"{module}."):
                return f"{_words(version)}: it imports {name}{where}{_but()}"
    elif isinstance(error, ImportError):
        found = re.search(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
        needed = _LIBRARY.get((found[2], found[1])) if found is not None else None
        if found is not None and needed is not None and needed > _HERE:
            return f"{_words(needed)}: it imports {found[2]}.{found[1]}{where}{_but()}"
    return ""


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _is_annotation(text: str, name: str, line: int) -> bool:
    """Return whether a name stands in an annotation in a line, and is bound somewhere."""
    tree = ast.parse(text)
    bound = {
        word
        for node in ast.walk(tree)
        for word in (
            [node.name]
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            else [alias.asname or alias.name for alias in node.names]
            if isinstance(node, ast.Import | ast.ImportFrom)
            else []
        )
    }
    annotations = [
        value
        for node in ast.walk(tree)
        for value in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(value, ast.expr)
    ]
    return name in bound and any(
        isinstance(one, ast.Name) and one.id == name and one.lineno == line
        for value in annotations
        for one in ast.walk(value)
    )


def newer_module(module: str) -> bool:
    """Return whether a module is one that the standard library of a newer Python has."""
    return any(
        not inner and version > _HERE and f"{module}.".startswith(f"{known}.")
        for (known, inner), version in _LIBRARY.items()
    )


def _words(version: Version) -> str:
    return f"this needs Python {version[0]}.{version[1]}"


def _but() -> str:
    return f"; this is Python {_HERE[0]}.{_HERE[1]}"


def _features(text: str, error: SyntaxError) -> Iterator[tuple[Version, int, str]]:
    """Yield what a source has that came with some version: the version, the line and the words."""
    for line in _logical_lines(text):
        for find in (_generics, _type_statement, _exception_groups, _templates, _nested_strings):
            yield from find(line)
    words = str(error.msg)
    if words.startswith("f-string") and ("backslash" in words or "'#'" in words):
        yield (3, 12), error.lineno or 0, "an f-string with a backslash or a comment in braces"


def _logical_lines(text: str) -> Iterator[_Tokens]:
    """Yield the tokens of each logical line, as far as there are any."""
    line: list[tokenize.TokenInfo] = []
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    while True:
        try:
            token = next(tokens)
        except (StopIteration, tokenize.TokenError, SyntaxError):
            yield line
            return
        if token.type == tokenize.NEWLINE:
            yield line
            line = []
        elif token.type not in _SKIPPED:
            line.append(token)


def _strings(line: _Tokens) -> list[str]:
    return [token.string for token in line]


def _generics(line: _Tokens) -> Iterator[tuple[Version, int, str]]:
    words = _strings(line)
    for index, word in enumerate(words[:-3]):
        is_first = index == 0 or words[index - 1] == "async"
        is_named = words[index + 3].isidentifier() or words[index + 3] in ("*", "**")
        if word in ("def", "class") and is_first and words[index + 2] == "[" and is_named:
            yield (3, 12), line[index].start[0], "type parameters"
            yield from _defaults(line, index + 2)


def _type_statement(line: _Tokens) -> Iterator[tuple[Version, int, str]]:
    words = _strings(line)
    if words[:1] == ["type"] and len(words) > 3 and words[1].isidentifier():
        if words[2] in ("=", "["):
            yield (3, 12), line[0].start[0], "a type statement"
        if words[2] == "[":
            yield from _defaults(line, 2)


def _defaults(line: _Tokens, begin: int) -> Iterator[tuple[Version, int, str]]:
    """Yield that a list of type parameters, which begins at a bracket, has a default."""
    depth = 0
    for token in line[begin:]:
        depth += (token.string in "([{") - (token.string in ")]}") if token.string else 0
        if not depth:
            return
        if depth == 1 and token.string == "=":
            yield (3, 13), token.start[0], "a default of a type parameter"
            return


def _exception_groups(line: _Tokens) -> Iterator[tuple[Version, int, str]]:
    words = _strings(line)
    if words[:1] != ["except"]:
        return
    depth = 0
    for index, word in enumerate(words):
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if word == ":" and not depth:
            return
        # As Python 2 had it, the name after the comma was a variable's.
        if (
            word == ","
            and not depth
            and words[index + 1 : index + 2]
            and (words[index + 1][0].isupper() or words[index + 2 : index + 3] == ["."])
        ):
            yield (3, 14), line[0].start[0], "several exceptions without parentheses"
            return


def _templates(line: _Tokens) -> Iterator[tuple[Version, int, str]]:
    if _strings(line)[:1] == ["lazy"] and _strings(line)[1:2] in (["import"], ["from"]):
        yield (3, 15), line[0].start[0], "a lazy import"
    for one, other in itertools.pairwise(line):
        is_prefix = one.type == tokenize.NAME and one.string.lower() in ("t", "tr", "rt")
        if is_prefix and other.type == tokenize.STRING and one.end == other.start:
            yield (3, 14), one.start[0], "a template string"


def _nested_strings(line: _Tokens) -> Iterator[tuple[Version, int, str]]:
    """Yield that a string within the braces of an f-string has the quotes of the f-string.

    Before Python 3.12 it ended there, so that something follows it without a space.
    """
    for one, other in itertools.pairwise(line):
        prefix = re.match(r"(?i)(?:f|fr|rf)['\"]", one.string)
        is_open = one.string.count("{") > one.string.count("}")
        if prefix and is_open and (one.end == other.start or other.type == tokenize.ERRORTOKEN):
            yield (3, 12), one.start[0], "an f-string with its own quotes in braces"
        rest = other.line[other.end[1] :]
        is_start = one.string.lower() in ("f", "fr", "rf") and one.end == other.start
        if other.type == tokenize.ERRORTOKEN and is_start and rest.count("{") > rest.count("}"):
            yield (3, 12), one.start[0], "an f-string of several lines"
