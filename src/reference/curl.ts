import { type DescribedOperation, type Parameter, parametersOf } from "./sections.ts";

/** The headers of the examples, with shell variables for keys and tokens. */
const HEADERS: Readonly<Record<string, string>> = {
  secretKey: "Authorization: Bearer $SECRET_KEY",
  publishableKey: "Authorization: Bearer $PUBLISHABLE_KEY",
  adminToken: "Authorization: Bearer $ADMIN_TOKEN",
};

const EXAMPLES: Readonly<Record<string, string>> = { userId: "user_42", token: "$TOKEN" };

/** `{packId}` of a path becomes `$PACK_ID`, which the reader sets. */
const variable = (name: string): string => `$${name.replace(/[A-Z]/g, "_$&").toUpperCase()}`;

const pair = ({ name }: Parameter): string => `${name}=${EXAMPLES[name] ?? variable(name)}`;

const singleQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** A command to paste into a shell, after its variables are set. */
export function curlOf(origin: string, method: string, path: string, operation: DescribedOperation): string {
  const query = parametersOf(operation).filter((parameter) => parameter.in === "query" && parameter.required === true);
  const filled = path.replace(/\{(\w+)\}/g, (_match, name: string) => variable(name));
  const url = `${origin}${filled}${query.length === 0 ? "" : `?${query.map(pair).join("&")}`}`;
  const lines = [`curl ${method === "GET" || method === "POST" ? "" : `-X ${method} `}"${url}"`];
  const [security = {}] = operation.security;
  for (const scheme of Object.keys(security)) lines.push(`-H "${HEADERS[scheme]}"`);
  const media = operation.requestBody?.content["application/json"];
  if (media !== undefined) {
    lines.push('-H "Content-Type: application/json"');
    lines.push(`-d ${singleQuoted(JSON.stringify(media.example, null, 2)).replaceAll("\n", "\n  ")}`);
  } else if (method === "POST") lines[0] = `curl -X POST "${url}"`;
  return lines.join(" \\\n  ");
}
