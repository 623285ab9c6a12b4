import { curlOf } from "./curl.ts";
import { Field, Fields } from "./schema-view.tsx";
import {
  type ApiResponse,
  type DescribedOperation,
  type ListedOperation,
  parametersOf,
  readReference,
  responsesOf,
} from "./sections.ts";
import { ColouredJson, InlineText } from "./text.tsx";

const SCHEME_NAMES: Readonly<Record<string, string>> = {
  secretKey: "a secret key",
  publishableKey: "a publishable key",
  endUserToken: "the end-user's token",
  adminToken: "the administrator's token",
};

export function Method({ method }: { method: string }) {
  return <span class={`method ${method.toLowerCase()}`}>{method}</span>;
}

function Security({ operation }: { operation: DescribedOperation }) {
  const ways = operation.security.map((schemes) =>
    Object.keys(schemes)
      .map((scheme) => SCHEME_NAMES[scheme] ?? scheme)
      .join(" and "),
  );
  return <p class="security">{ways.length === 0 ? "No key." : `With ${ways.join(", or with ")}.`}</p>;
}

function Parameters({ operation }: { operation: DescribedOperation }) {
  const parameters = parametersOf(operation);
  if (parameters.length === 0) return null;
  return (
    <>
      <h4>Parameters</h4>
      <ul class="fields">
        {parameters.map(({ name, schema, required = false, description, in: place }) => (
          <Field
            name={name}
            schema={schema}
            mark={required ? "required" : null}
            description={description}
            hint={`in ${place}`}
          />
        ))}
      </ul>
    </>
  );
}

function Body({ operation }: { operation: DescribedOperation }) {
  const content = Object.entries(operation.requestBody?.content ?? {});
  if (content.length === 0) return null;
  return (
    <>
      <h4>Body</h4>
      {content.map(([type, { schema }], index) =>
        index === 0 ? (
          <Fields schema={schema} />
        ) : (
          <details>
            <summary>
              As <code>{type}</code>
            </summary>
            <Fields schema={schema} />
          </details>
        ),
      )}
    </>
  );
}

function Success({ reply }: { reply: ApiResponse }) {
  const media = reply.content?.["application/json"];
  const { headers } = readReference().components;
  const shown = Object.keys(reply.headers ?? {}).filter((name) => headers[name] !== undefined);
  return (
    <>
      <h4>Answer</h4>
      <p>
        <InlineText text={reply.description} />
      </p>
      {media !== undefined && <Fields schema={media.schema} isAnswer />}
      <details>
        <summary>Headers</summary>
        <ul class="fields">
          {shown.map((name) => (
            <Field name={name} schema={{ type: "string" }} mark={null} description={headers[name]?.description} />
          ))}
        </ul>
      </details>
    </>
  );
}

function Refusals({ replies }: { replies: readonly (readonly [string, ApiResponse])[] }) {
  return (
    <details>
      <summary>Errors</summary>
      <table>
        <tbody>
          {replies.flatMap(([status, reply]) =>
            reply.description.split("\n\n").map((line) => (
              <tr>
                <th scope="row">{status}</th>
                <td>
                  <InlineText text={line} />
                </td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </details>
  );
}

/** One operation: what it takes on the left, what it looks like on the wire on the right. */
export function OperationView({ listed, origin }: { listed: ListedOperation; origin: string }) {
  const { method, path, operation } = listed;
  const replies = responsesOf(operation);
  const success = replies.find(([status]) => status === "200")?.[1];
  const example = success?.content?.["application/json"]?.example;
  return (
    <section class="operation" id={operation.operationId} aria-labelledby={`${operation.operationId}-title`}>
      <div class="prose">
        <h3 id={`${operation.operationId}-title`}>
          <a href={`#${operation.operationId}`}>{operation.summary}</a>
        </h3>
        <p class="route">
          <Method method={method} /> <code>{path}</code>
        </p>
        <p>
          <InlineText text={operation.description} />
        </p>
        <Security operation={operation} />
        <Parameters operation={operation} />
        <Body operation={operation} />
        {success !== undefined && <Success reply={success} />}
        <Refusals replies={replies.filter(([status]) => status !== "200")} />
      </div>
      <div class="wire">
        <figure>
          <figcaption>Request</figcaption>
          <pre tabindex={0}>
            <code>{curlOf(origin, method, path, operation)}</code>
          </pre>
        </figure>
        {example !== undefined && (
          <figure>
            <figcaption>Answer, 200</figcaption>
            <pre tabindex={0}>
              <code>
                <ColouredJson text={JSON.stringify(example, null, 2)} />
              </code>
            </pre>
          </figure>
        )}
      </div>
    </section>
  );
}
