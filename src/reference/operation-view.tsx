import { ColouredJson, Fields, FieldView, InlineText } from "./schema-view.tsx";
import {
  type ApiResponse,
  curlOf,
  type DescribedOperation,
  type ListedOperation,
  parametersOf,
  readReference,
  responsesOf,
} from "./sections.ts";

const SCHEME_NAMES: Readonly<Record<string, string>> = {
  secretKey: "a secret key",
  publishableKey: "a publishable key",
  adminToken: "the admin token",
  administrationKey: "an administration key",
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
  return <p class="security">{ways.length === 0 ? "No Authorization header." : `With ${ways.join(", or with ")}.`}</p>;
}

function Parameters({ operation }: { operation: DescribedOperation }) {
  const parameters = parametersOf(operation);
  if (parameters.length === 0) return null;
  return (
    <>
      <h4>Parameters</h4>
      <ul class="fields">
        {parameters.map(({ name, schema, required = false, description, in: place }) => (
          <FieldView
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

function BodyView({ operation }: { operation: DescribedOperation }) {
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

function Success({ response }: { response: ApiResponse }) {
  const media = response.content?.["application/json"];
  const { headers } = readReference().components;
  const shownHeaders = Object.keys(response.headers ?? {}).filter((name) => headers[name] !== undefined);
  return (
    <>
      <h4>Response</h4>
      <p>
        <InlineText text={response.description} />
      </p>
      {media !== undefined && <Fields schema={media.schema} isResponse />}
      <details>
        <summary>Headers</summary>
        <ul class="fields">
          {shownHeaders.map((name) => (
            <FieldView name={name} schema={{ type: "string" }} mark={null} description={headers[name]?.description} />
          ))}
        </ul>
      </details>
    </>
  );
}

function Errors({ responses }: { responses: readonly (readonly [string, ApiResponse])[] }) {
  return (
    <details>
      <summary>Errors</summary>
      <table>
        <tbody>
          {responses.flatMap(([status, response]) =>
            response.description.split("\n\n").map((line) => (
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

/** Shows one operation: its description on the left, an example of a request and a response on the right. */
export function OperationView({ listed, origin }: { listed: ListedOperation; origin: string }) {
  const { method, path, operation } = listed;
  const responses = responsesOf(operation);
  const success = responses.find(([status]) => status === "200")?.[1];
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
        <p class="security">
          In the TypeScript client <code>purser.{operation.operationId}()</code>.
        </p>
        <p>
          <InlineText text={operation.description} />
        </p>
        <Security operation={operation} />
        <Parameters operation={operation} />
        <BodyView operation={operation} />
        {success !== undefined && <Success response={success} />}
        <Errors responses={responses.filter(([status]) => status !== "200")} />
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
            <figcaption>Response, 200</figcaption>
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
