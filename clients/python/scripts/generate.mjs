/**
 * Writes src/purser/types.py and src/purser/_operations.py, the types of openapi.json and a method for each operation, blocking and
 * not. With `--check` it fails where they are not up to date. `npm run python:operations` runs it.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { operations } from "../../typescript/src/generated/operations.ts";

const root = join(import.meta.dirname, "..");
const document = JSON.parse(readFileSync(join(root, "../../.purser/reference/openapi.json"), "utf8"));
const HEAD = "Made from openapi.json by scripts/generate.mjs.";
const WIDTH = 100;
const schemas = document.components.schemas;
const nameOf = ({ $ref }) => $ref.split("/").at(-1);

/** Python's name of an argument. A reserved word gets an underscore. */
function snake(name) {
  const text = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return ["from", "class", "import", "global"].includes(text) ? `${text}_` : text;
}
const pascal = (name) => name.charAt(0).toUpperCase() + name.slice(1);
const quoted = (text) => JSON.stringify(text);

/** The declarations of types.py, by name. `null` marks one that is being written. */
const classes = new Map();
const aliases = new Map();

const union = (types) => {
  const distinct = [...new Set(types)];
  const others = distinct.filter((type) => type !== "None");
  const one = others.length === 1 ? others[0] : `Union[${others.join(", ")}]`;
  return others.length < distinct.length ? `Optional[${one}]` : one;
};

const SCALARS = {
  sent: { number: "Amount", integer: "int", string: "str", boolean: "bool", null: "None", array: "Sequence" },
  received: { number: "Number", integer: "int", string: "str", boolean: "bool", null: "None", array: "List" },
};

/** Returns the Python type of a schema. `direction` is `sent` or `received`; `name` is for a class that has to be made. */
function typeOf(schema, direction, name) {
  if (schema.$ref !== undefined) return named(nameOf(schema), direction);
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants !== undefined) return union(variants.map((one) => typeOf(one, direction, name)));
  if (schema.const !== undefined) return typeof schema.const === "number" ? "int" : literal([schema.const]);
  if (schema.enum !== undefined) return literal(schema.enum);
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, direction, name)));
  if (schema.type === "array") return `${SCALARS[direction].array}[${typeOf(schema.items ?? {}, direction, name)}]`;
  if (schema.type === "object") {
    if (schema.properties !== undefined) return classOf(name, schema, direction);
    const values = typeof schema.additionalProperties === "object" ? schema.additionalProperties : {};
    return `${direction === "sent" ? "Mapping" : "Dict"}[str, ${typeOf(values, direction, name)}]`;
  }
  if (schema.type === "string" && schema.format === "date-time" && direction === "sent") return "Time";
  return SCALARS[direction][schema.type] ?? "Any";
}

function literal(values) {
  if (!values.every((value) => typeof value === "string" || typeof value === "boolean"))
    throw new Error(`No literal type for ${JSON.stringify(values)}`);
  return `Literal[${values.map((value) => (value === true ? "True" : value === false ? "False" : quoted(value))).join(", ")}]`;
}

/** Declares a component, and returns its name. */
function named(name, direction) {
  const schema = schemas[name];
  if (schema.properties !== undefined) return classOf(name, schema, direction);
  if (!aliases.has(name) && !classes.has(name)) aliases.set(name, typeOf(schema, direction, name));
  return name;
}

/** The ids that the client makes, so that they are optional in what it sends. */
const MADE = new Set(Object.values(operations).flatMap(({ idempotent }) => idempotent?.field ?? []));

/** Declares a class with the fields of an object. */
function classOf(name, schema, direction) {
  if (classes.has(name)) return name;
  classes.set(name, null);
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties).map(([field, inner]) => ({
    field,
    type: typeOf(inner, direction, name + pascal(field)),
    isRequired: required.has(field) && !(direction === "sent" && MADE.has(field)),
  }));
  classes.set(name, { fields, description: schema.description });
  return name;
}

const lineOf = ({ field, type }) => {
  const line = `    ${field}: ${type}`;
  return line.length <= WIDTH ? line : broken(line, "    ");
};

/** Breaks a type that is too long for a line after its bracket and after each part. */
function broken(line, indent) {
  const open = line.indexOf("[");
  const parts = [];
  let depth = 0;
  let text = "";
  let isQuoted = false;
  for (const character of line.slice(open + 1, -1)) {
    if (character === '"') isQuoted = !isQuoted;
    if (!isQuoted) depth += { "[": 1, "]": -1 }[character] ?? 0;
    if (character === "," && depth === 0 && !isQuoted) {
      parts.push(text.trim());
      text = "";
    } else text += character;
  }
  parts.push(text.trim());
  const lines = parts.map((part) => {
    const inner = `${indent}    ${part},`;
    return inner.length <= WIDTH || !part.includes("[") ? inner : `${broken(inner.slice(0, -1), `${indent}    `)},`;
  });
  return `${line.slice(0, open + 1)}\n${lines.join("\n")}\n${indent}]`;
}

/** A class cannot have a field whose name is a reserved word, or has other characters. */
function functionalText(name, fields, isTotal) {
  const lines = fields.map(({ field, type }) => `        ${quoted(field)}: ${quoted(type)},`);
  const total = isTotal ? "" : "\n    total=False,";
  return `${name} = TypedDict(\n    ${quoted(name)},\n    {\n${lines.join("\n")}\n    },${total}\n)`;
}

function classText(name, { fields, description }) {
  const all = fields.filter(({ isRequired }) => isRequired);
  const some = fields.filter(({ isRequired }) => !isRequired);
  if (fields.some(({ field }) => snake(field).endsWith("_") || !/^\w+$/.test(field)))
    return functionalText(name, fields, some.length === 0);
  const doc = description === undefined ? "" : `${docOf([description], "    ")}\n\n`;
  const body = (list) => list.map(lineOf).join("\n");
  if (all.length === 0 && some.length > 0) return `class ${name}(TypedDict, total=False):\n${doc}${body(some)}`;
  if (some.length === 0) return `class ${name}(TypedDict):\n${doc}${body(all) || "    pass"}`;
  return `class _${name}(TypedDict):\n${body(all)}\n\n\nclass ${name}(_${name}, total=False):\n${doc}${body(some)}`;
}

/** Wraps a text into lines. */
function wrapped(text, indent, first = indent) {
  const lines = [];
  for (const paragraph of text.split("\n")) {
    let line = lines.length === 0 ? first : indent;
    for (const word of paragraph.trim().split(/\s+/)) {
      const isFirst = line.trim() === "" || line === first;
      if (!isFirst && line.length + 1 + word.length > WIDTH) {
        lines.push(line);
        line = indent + word;
      } else line += isFirst ? word : ` ${word}`;
    }
    lines.push(line.trimEnd());
  }
  return lines.join("\n");
}

function docOf(paragraphs, indent) {
  const [head, ...rest] = paragraphs.map((text) => text.replaceAll("\\", "\\\\").replaceAll('"""', "'''"));
  const first = wrapped(head, indent, `${indent}"""`);
  if (rest.length === 0 && !first.includes("\n") && first.length + 3 <= WIDTH) return `${first}"""`;
  const text = [first, ...rest.map((one) => wrapped(one, indent))].join("\n\n");
  return `${text}\n${indent}"""`;
}

const found = new Map(
  Object.entries(document.paths).flatMap(([, item]) =>
    Object.values(item).flatMap((operation) =>
      operation.operationId === undefined ? [] : [[operation.operationId, operation]],
    ),
  ),
);

/** The arguments of an operation: the fields of its path, query and body. */
function argumentsOf(name) {
  const { parameters = [], requestBody } = found.get(name);
  const inUrl = parameters.flatMap((one) => {
    if (one.$ref !== undefined) return [];
    const type = typeOf(one.schema, "sent", pascal(name) + pascal(one.name));
    return [{ field: one.name, type, isRequired: one.required === true, text: one.description }];
  });
  const body = requestBody?.content["application/json"]?.schema;
  if (body === undefined || body.type === "array") return inUrl;
  const schema = body.$ref === undefined ? body : schemas[nameOf(body)];
  const inBody = Object.entries(schema.properties).map(([field, inner]) => ({
    field,
    type: typeOf(inner, "sent", pascal(name) + pascal(field)),
    isRequired: schema.required?.includes(field) === true && !MADE.has(field),
    text: inner.description,
  }));
  return [...inUrl, ...inBody];
}

const isNeeded = ({ isRequired }) => isRequired;
const parameter = ({ field, type, isRequired }) =>
  `        ${snake(field)}: ${isRequired ? type : `${union([type, "NotGiven"])} = NOT_GIVEN`},`;
const sorted = (all) => [...all.filter(isNeeded), ...all.filter((one) => !isNeeded(one))];

function signature({ name, all, answer, prefix }) {
  const given = all.length === 0 ? ["        self,"] : ["        self,", "        *,", ...sorted(all).map(parameter)];
  const short = `    ${prefix}def ${name}(${given.map((line) => line.trim().replace(/,$/, "")).join(", ")}) -> ${answer}:`;
  if (short.length <= WIDTH && all.length < 4) return short;
  return `    ${prefix}def ${name}(\n${given.join("\n")}\n    ) -> ${answer}:`;
}

const fieldsText = (all) =>
  all.length === 0
    ? "{}"
    : `{\n${all.map(({ field }) => `                ${quoted(field)}: ${snake(field)},`).join("\n")}\n            }`;

const argumentDocs = (all) =>
  all.flatMap(({ field, text }) => (text === undefined ? [] : [`\`${snake(field)}\`: ${text}`])).join("\n");

function docFor(summary, description, all) {
  return docOf(
    [`${summary}.`, description, argumentDocs(all)].filter((text) => text !== ""),
    "        ",
  );
}

/** The answer's type: one, or with `eventId` one entry instead of a page. */
function answersOf(name) {
  const schema = found.get(name).responses[200]?.content?.["application/json"]?.schema ?? {};
  const all = (schema.anyOf ?? [schema]).map((one) => typeOf(one, "received", `${pascal(name)}Answer`));
  return { all, page: (schema.anyOf ?? [schema])[0] };
}

function entryOf(name, list) {
  const { page } = answersOf(name);
  const { properties } = schemas[nameOf(page)];
  return typeOf(properties[list].items, "received", `${pascal(name)}Entry`);
}

const isSync = (kind) => kind === "sync";

function method(name, kind) {
  const { summary, description = "", requestBody } = found.get(name);
  const { list } = operations[name];
  const prefix = isSync(kind) ? "" : "async ";
  const call = isSync(kind) ? "self._call" : "await self._call";
  const { all: answers } = answersOf(name);
  const python = snake(name);
  const body = requestBody?.content["application/json"]?.schema;
  if (body?.type === "array") {
    const type = typeOf(body, "sent", pascal(name));
    return [
      `    ${prefix}def ${python}(self, events: ${type}) -> ${answers[0]}:`,
      docFor(summary, description, []),
      `        answer: ${answers[0]} = ${call}(${quoted(python)}, events)`,
      "        return answer",
    ].join("\n");
  }
  const all = argumentsOf(name);
  const answer = union(answers);
  const lines = [];
  if (list !== undefined && answers.length > 1) {
    const one = all.map((each) => (each.field === "eventId" ? { ...each, isRequired: true } : each));
    const many = all.filter(({ field }) => field !== "eventId");
    for (const [given, type] of [
      [one, answers[1]],
      [many, answers[0]],
    ])
      lines.push(`    @overload\n${signature({ name: python, all: given, answer: type, prefix })} ...\n`);
  }
  lines.push(
    signature({ name: python, all, answer, prefix }),
    docFor(summary, description, all),
    `        answer: ${answer} = ${call}(\n            ${quoted(python)},\n            ${fieldsText(all)},\n        )`,
    "        return answer",
  );
  if (list !== undefined && name.startsWith("list")) lines.push("", iterator(name, list, all, kind));
  return lines.join("\n");
}

function iterator(name, list, all, kind) {
  const python = snake(name);
  const given = all.filter(({ field }) => field !== "cursor" && field !== "eventId");
  const answer = `${isSync(kind) ? "Iterator" : "AsyncIterator"}[${entryOf(name, list)}]`;
  const iterate = isSync(kind) ? "for entry in" : "async for entry in";
  return [
    signature({ name: python.replace(/^list_/, "iter_"), all: given, answer, prefix: "" }),
    docOf([`Iterate over all entries of \`${python}\`: \`${iterate} …\`.`], "        "),
    `        return self._entries(\n            ${quoted(python)},\n            ${fieldsText(given)},\n        )`,
  ].join("\n");
}

/** The context manager takes the fields of a reservation, and those of its commit. */
function hold(kind) {
  const answer = isSync(kind) ? "Hold" : "AsyncHold";
  const all = argumentsOf("createReservation");
  const given = sorted(all).map(parameter);
  const statement = isSync(kind) ? "with purser.hold(…) as hold:" : "async with purser.hold(…) as hold:";
  return `    def hold(
        self,
        *,
${given.join("\n")}
        event_id: Union[str, NotGiven] = NOT_GIVEN,
        properties: Union[Optional[Mapping[str, Any]], NotGiven] = NOT_GIVEN,
        on_error: Literal["commit", "release"] = "commit",
    ) -> ${answer}:
        """Reserve credits while work runs, and commit its usage.

        \`${statement}\`

        Report the usage with \`hold.used\`. If the work raises, or is cancelled, the usage that it
        reported until then is committed; with \`on_error="release"\` all credits return. If it
        reported nothing, they return. A commit that fails for good leaves the credits to
        \`on_expiry\`. Raises \`InsufficientCredits\` before the work begins.

        \`event_id\`: The id of the usage event. The client makes one if it is absent.
        \`properties\`: Stored with the usage event.
${wrapped(argumentDocs(all), "        ")}
        """
        return ${answer}(
            cast(${quoted(isSync(kind) ? "Purser" : "AsyncPurser")}, self),
            ${fieldsText(all)},
            event_id,
            properties,
            on_error,
        )`;
}

function operationLine([name, { method: verb, path, keys, list, takesUserToken, idempotent }]) {
  const parts = [
    quoted(verb),
    quoted(path),
    quoted(keys),
    ...(list === undefined ? [] : [`list=${quoted(list)}`]),
    ...(takesUserToken === true ? ["takes_user_token=True"] : []),
    ...(idempotent === undefined ? [] : ["is_idempotent=True"]),
    ...(idempotent?.field === undefined ? [] : [`id_field=${quoted(idempotent.field)}`]),
    ...(idempotent?.prefix === undefined ? [] : [`id_prefix=${quoted(idempotent.prefix)}`]),
  ];
  const line = `    ${quoted(snake(name))}: Operation(${parts.join(", ")}),`;
  if (line.length <= WIDTH) return line;
  return `    ${quoted(snake(name))}: Operation(\n${parts.map((part) => `        ${part},`).join("\n")}\n    ),`;
}

const names = Object.keys(operations);
const surface = (kind) =>
  [...names.map((name) => method(name, kind)), hold(kind)].join("\n\n").replace(/\n\n\n+/g, "\n\n");
const [sync, async] = [surface("sync"), surface("async")];
// The details of errors are in no answer that is a success.
for (const name of Object.keys(schemas).filter((each) => each.endsWith("Error"))) named(name, "received");

const used = (text) =>
  [...classes.keys(), ...aliases.keys(), "Amount", "Number", "Time"]
    .filter((name) => new RegExp(`\\b${name}\\b`).test(text.replace(/"""[\s\S]*?"""/g, "")))
    .sort((one, other) => (one.toLowerCase() < other.toLowerCase() ? -1 : 1));
const typing = (text) =>
  [
    "Any",
    "AsyncIterator",
    "Dict",
    "Iterator",
    "List",
    "Literal",
    "Mapping",
    "Optional",
    "Sequence",
    "TypedDict",
    "Union",
    "cast",
    "overload",
  ]
    .filter((name) => new RegExp(`(?<![.\\w])${name}(?=[\\[(,\\n\\] ])`).test(text.replace(/"""[\s\S]*?"""/g, "")))
    .map((name) => `    ${name},`)
    .join("\n");

const isLiteral = ([, type]) => type.startsWith("Literal[");
const aliasText = ([name, type]) => {
  const line = `${name} = ${type}`;
  return line.length <= WIDTH || !type.endsWith("]") ? line : broken(line, "");
};
const typesBody = `#: An amount that you send.
Amount = Union[int, float, Decimal]
#: An amount in an answer, with all its digits.
Number = Union[int, Decimal]
#: A time that you send: text in RFC 3339, or a datetime with a time zone.
Time = Union[str, datetime]

${[...aliases].filter(isLiteral).map(aliasText).join("\n")}


${[...classes].map(([name, found_]) => classText(name, found_)).join("\n\n\n")}


${[...aliases]
  .filter((one) => !isLiteral(one))
  .map(aliasText)
  .join("\n")}
`;
const types = `"""The types of what is sent and received. Their names are those of the reference.

${HEAD}
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import (
${typing(typesBody)}
)

${typesBody}`;

const operationsBody = `${sync}\n${async}`;
const operationsText = `"""A method for each operation, blocking and not.

${HEAD}
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
${typing(`${operationsBody} Any Mapping[ cast(`)}
)

from ._hold import AsyncHold, Hold
from ._request import NOT_GIVEN, NotGiven, Operation
from .types import (
${used(operationsBody.replace(/\bHold\b/g, ""))
  .map((name) => `    ${name},`)
  .join("\n")}
)

if TYPE_CHECKING:
    from ._client import AsyncPurser, Purser

OPERATIONS = {
${Object.entries(operations).map(operationLine).join("\n")}
}


class Operations:
    """The operations of \`Purser\`."""

    def _call(
        self, name: str, fields: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]
    ) -> Any:
        raise NotImplementedError

    def _entries(self, name: str, fields: Mapping[str, Any]) -> Iterator[Any]:
        raise NotImplementedError

${sync}


class AsyncOperations:
    """The operations of \`AsyncPurser\`."""

    async def _call(
        self, name: str, fields: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]]
    ) -> Any:
        raise NotImplementedError

    def _entries(self, name: str, fields: Mapping[str, Any]) -> AsyncIterator[Any]:
        raise NotImplementedError

${async}
`;

const isCheck = process.argv.includes("--check");
for (const [file, text] of [
  ["types.py", types],
  ["_operations.py", operationsText],
]) {
  const path = join(root, "src/purser", file);
  if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
  if (isCheck) {
    console.error(`clients/python/src/purser/${file} is not up to date: run npm run python:operations.`);
    process.exitCode = 1;
  } else writeFileSync(path, text);
}
