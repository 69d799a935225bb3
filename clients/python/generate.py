"""Writes sales_data_client/_generated from the OpenAPI document: the types of all records, and a method for each operation."""

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "../../test/contract/openapi.json"
TARGET = HERE / "sales_data_client" / "_generated"

document: dict[str, Any] = json.loads(SOURCE.read_text("utf8"))
classes: list[str] = []

#: The member that a place of a request has if it says which page is wanted.
PLACES = {"paginate": "paginate", "root": "cursor", "query": "cursor"}

PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        part: Any = document
        for key in schema["$ref"].split("/")[1:]:
            part = part[key]
        schema = part
    return schema


def pascal(*words: str) -> str:
    return "".join(re.sub(r"\W|_", " ", word[:1].upper() + word[1:]).title().replace(" ", "") if not word[:1].isupper() else word for word in words)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def type_of(schema: dict[str, Any], name: str) -> str:
    """Returns the Python type for a schema. An object that has no name in the document gets `name`."""
    if "$ref" in schema:
        return str(schema["$ref"].split("/")[-1])
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return "Literal[" + ", ".join(repr(value) for value in schema["enum"]) + "]"
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return union(type_of(one, f"{name}{n}") for n, one in enumerate(alternatives, 1))
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    return union(type_of_kind(kind, schema, name) for kind in types) or "Any"


def union(types: Any) -> str:
    return " | ".join(dict.fromkeys(types))


def type_of_kind(kind: str, schema: dict[str, Any], name: str) -> str:
    if kind in PLAIN:
        return PLAIN[kind]
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}), name + 'Item')}]"
    if schema.get("properties"):
        define(name, schema)
        # A TypedDict cannot have keys by pattern, such as `custom_fields.plan`.
        return f"{name} | dict[str, Any]" if schema.get("patternProperties") else name
    rest = schema.get("additionalProperties")
    return f"dict[str, {type_of(rest, name + 'Value') if isinstance(rest, dict) else 'Any'}]"


def define(name: str, schema: dict[str, Any]) -> None:
    """Adds a TypedDict. Its members are strings, so that the order of the definitions does not matter."""
    required = schema.get("required", [])
    members = []
    for key, one in schema["properties"].items():
        kind = type_of(one, name + pascal(key))
        members.append(f"    {key!r}: {(kind if key in required else f'NotRequired[{kind}]')!r},")
    note = docstring(schema.get("description", ""))
    classes.append(f"{note}{name} = TypedDict({name!r}, {{\n" + "\n".join(members) + "\n})\n")


def docstring(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


def main() -> None:
    aliases = []
    for name, schema in document["components"]["schemas"].items():
        is_closed = "anyOf" not in schema and "patternProperties" not in schema
        if schema.get("type") == "object" and schema.get("properties") and is_closed:
            define(name, schema)
        else:
            aliases.append(f"{name}: TypeAlias = {type_of(schema, name + 'Value')!r}\n")
    settings = document["components"]["schemas"]["ImportCreate"]
    members = {key: one for key, one in settings["properties"].items() if key not in ("object", "start")}
    define("ImportSettings", {**settings, "properties": members, "description": "What is imported and how."})
    operations: dict[str, Any] = {}
    methods = []
    for path, by_method in document["paths"].items():
        for method, operation in by_method.items():
            methods.append(method_of(path, method, operation, operations))
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "__init__.py").write_text("")
    types = "\n".join(classes + aliases)
    head = '"""Generated from the OpenAPI document."""\n\n'
    (TARGET / "schema.py").write_text(
        head + "from typing import Any, Literal, NotRequired, TypeAlias, TypedDict\n\n" + types, "utf8"
    )
    (TARGET / "calls.py").write_text(
        head
        + "from __future__ import annotations\n\nfrom collections.abc import Iterator\nfrom typing import Any, Literal\n\n"
        + "from .._transport import Transport, Upload\nfrom .schema import *\n\n"
        + f"OPERATIONS: dict[str, dict[str, Any]] = {operations!r}\n\n"
        + f"Batch = Literal[{', '.join(repr(name) for name in operations if name.endswith('_batch'))}]\n\n\n"
        + "class Calls(Transport):\n    \"\"\"A method for each operation.\"\"\"\n\n"
        + "\n".join(methods),
        "utf8",
    )


def method_of(path: str, method: str, operation: dict[str, Any], operations: dict[str, Any]) -> str:
    """Returns the method for an operation, and a second one that iterates over its pages. Adds it to the table."""
    name = snake(operation["operationId"])
    parameters = [one["name"].lower() for one in operation.get("parameters", [])]
    query = {one["name"]: one["schema"] for one in operation.get("parameters", []) if one["in"] == "query"}
    success = next(one for status, one in operation["responses"].items() if status < "400")
    content = success.get("content", {})
    answer = content.get("application/json", {}).get("schema")
    returns = "json" if answer else "file" if content else "nothing"
    body = operation.get("requestBody", {})
    takes = next(iter(body.get("content", {})), None)
    schema = body.get("content", {}).get("application/json", {}).get("schema")
    members = resolved(schema).get("properties", {}) if schema else {}
    pages = None
    # The feed has no last page: `events.follow` reads it.
    if answer and resolved(answer).get("type") == "array" and "x-more" not in success.get("headers", {}):
        pages = next((place for place, has in (("paginate", members), ("root", members), ("query", query)) if PLACES[place] in has), None)
    operations[name] = {
        "method": method.upper(),
        "path": path,
        "takes": takes,
        "is_keyed": "idempotency-key" in parameters,
        "is_read": method == "get" or re.match(r"(list|count|export|match|suggest|read)_", name) is not None,
        "is_setting": method == "patch" and not name.startswith("rotate_"),  # each rotation makes another key
        "returns": returns,
        "may_be_null": any(one.get("type") == "null" for one in (answer or {}).get("anyOf", [])),
        "query": list(query),
        "pages": pages,
    }
    own = pascal(operation["operationId"])
    before = len(classes)
    result = type_of(answer, own + "Result") if answer else {"file": "Iterator[bytes]", "nothing": "None"}[returns]
    given = type_of(schema, own + "Body") if schema else "Upload" if takes else None
    assert len(classes) >= before
    arguments = ["self"]
    if "id" in parameters:
        arguments.append("id: str")
    if given:
        arguments.append(f"body: {given}" if body.get("required") else f"body: {given} | None = None")
    options = []
    if "idempotency-key" in parameters:
        options.append("idempotency_key")
    if "if-match" in parameters:
        options.append("if_match")
    if takes == "application/octet-stream":
        options.append("content_encoding")
    if options or query:
        arguments += ["*"] + [f"{option}: str | None = None" for option in options]
        arguments += [f"{option}: {type_of(one, own + pascal(option))} | None = None" for option, one in query.items()]
    passed = [repr(name)]
    if "id" in parameters:
        passed.append("id=id")
    if given:
        passed.append("body=body")
    passed += [f"{option}={option}" for option in options]
    if query:
        passed.append("query={" + ", ".join(f"{option!r}: {option}" for option in query) + "}")
    text = operation.get("description", operation.get("summary", "")).replace("\\", "\\\\").replace('"""', "'''")
    note = "\n        ".join(text.splitlines())
    call = f"self.call({', '.join(passed)})"
    lines = [
        f"    def {name}({', '.join(arguments)}) -> {result}:",
        f'        """{note}\n        """',
        f"        {call if returns == 'nothing' else f'return {call}.data  # type: ignore[no-any-return]'}",
        "",
    ]
    if pages:
        item = result.removeprefix("list[").removesuffix("]")
        positional = arguments[: arguments.index("*")] if "*" in arguments else arguments
        optional = [argument if "= None" in argument or ":" not in argument or argument.startswith("id:") else argument for argument in positional]
        lines += [
            f"    def {name.replace('list_', 'iter_', 1)}({', '.join(optional)}) -> Iterator[{item}]:",
            f'        """Returns the records of all pages of `{name}`, and reads further pages when they are needed."""',
            f"        return self.each({', '.join(part for part in passed if '=' not in part or part in ('id=id', 'body=body'))})",
            "",
        ]
    return "\n".join(lines)


assert not any(keyword.iskeyword(snake(o["operationId"])) for m in document["paths"].values() for o in m.values())
main()
