"""What may be Unknown is never asked for its truth, which is a TypeError at the reader's desk: `or`, `and`, `not` and `if` want a comparison."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "src" / "steelyard"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef)


def bare_truths(source: str) -> list[str]:
    """Names whose truth is asked although a parameter's type, a declared type or a value says that they may be Unknown."""
    found = []
    for scope in ast.walk(ast.parse(source)):
        if isinstance(scope, _SCOPES):
            names = set(_perhaps_unknown(scope))
            found += [f"{node.lineno}: {node.id}" for node in _asked(scope) if node.id in names]
    return sorted(set(found))


def _perhaps_unknown(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for parameter in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs):
        if parameter.annotation is not None and _is_unknowable(ast.unparse(parameter.annotation)):
            yield parameter.arg
    for node in ast.walk(scope):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if _is_unknowable(ast.unparse(node.annotation)):
                yield node.target.id
        elif isinstance(node, ast.Assign) and any(_makes_unknown(value) for value in _values(node.value)):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _is_unknowable(annotation: str) -> bool:
    words = annotation.replace("'", "").replace('"', "").split(" | ")
    return "Unknown" in words or words[0] == "Value"


def _values(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _values(node.body)
        yield from _values(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _values(value)
    else:
        yield node


def _makes_unknown(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Unknown"


def _asked(scope: ast.AST) -> Iterator[ast.Name]:
    for node in ast.walk(scope):
        asked: list[ast.expr] = []
        if isinstance(node, ast.BoolOp):
            asked = node.values[:-1]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            asked = [node.operand]
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            asked = [node.test, *(node.test.values if isinstance(node.test, ast.BoolOp) else ())]
        elif isinstance(node, ast.comprehension):
            asked = node.ifs
        yield from (each for each in asked if isinstance(each, ast.Name))


@pytest.mark.parametrize("layer", sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))
def test_nothing_that_may_be_unknown_is_asked_for_its_truth(layer: str) -> None:
    paths = (PACKAGE / layer).rglob("*.py")
    assert [f"{path.relative_to(PACKAGE)}:{each}" for path in paths for each in bare_truths(_text(path))] == []


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        "reason = outside or Unknown('x')",
        "if outside: pass",
        "found = [1 for _ in () if outside]",
        "found = 1 if not outside else 2",
        "told = Unknown('x') if cold else None\n    if cold and told: pass",
    ],
)
def test_the_check_sees_each_way_of_asking(line: str) -> None:
    assert bare_truths(f"def of(outside: Unknown | None, cold: bool) -> None:\n    {line}\n")
    assert not bare_truths("def of(outside: Unknown | None) -> None:\n    if outside is not None: pass\n")
