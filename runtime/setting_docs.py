"""What the settings mean, as the records say it: the text literal under each field."""

import ast
import inspect
from itertools import pairwise
from textwrap import dedent


def field_docs(record: type) -> dict[str, str]:
    """The text under each field that has one, its line breaks made spaces."""
    (definition,) = ast.parse(dedent(inspect.getsource(record))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
