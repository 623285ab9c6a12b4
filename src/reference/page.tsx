import { type ErrorCode, errorMeaning, errorStatus } from "../errors.ts";
import { Method, OperationView } from "./operation-view.tsx";
import { Fields } from "./schema-view.tsx";
import { operationsOf, readReference } from "./sections.ts";
import { style } from "./style.ts";
import { InlineText, Paragraphs } from "./text.tsx";

const anchorOf = (tag: string): string => `tag-${tag.toLowerCase().replace(/[^a-z]+/g, "-")}`;

function ContentsView() {
  const { tags, components } = readReference();
  return (
    <ul class="contents">
      <li>
        <a href="#top">Introduction</a>
      </li>
      {tags.map(({ name }) => (
        <li>
          <a class="tag" href={`#${anchorOf(name)}`}>
            {name}
          </a>
          <ul>
            {operationsOf(name).map(({ method, operation }) => (
              <li>
                <a href={`#${operation.operationId}`}>
                  <span>{operation.summary}</span> <Method method={method} />
                </a>
              </li>
            ))}
          </ul>
        </li>
      ))}
      <li>
        <a class="tag" href="#errors">
          Errors
        </a>
      </li>
      <li>
        <a class="tag" href="#schemas">
          Schemas
        </a>
        <ul>
          {Object.keys(components.schemas).map((name) => (
            <li>
              <a href={`#schema-${name}`}>{name}</a>
            </li>
          ))}
        </ul>
      </li>
    </ul>
  );
}

function ErrorCodes() {
  // Object.entries loses the type of the codes.
  const codes = Object.entries(errorStatus) as [ErrorCode, number][];
  return (
    <section id="errors">
      <h2>
        <a href="#errors">Errors</a>
      </h2>
      <p>All error codes. The list is closed.</p>
      <table>
        <tbody>
          {codes.map(([code, status]) => (
            <tr>
              <th scope="row">{status}</th>
              <td>
                <code>{code}</code>
              </td>
              <td>
                <InlineText text={errorMeaning[code]} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Schemas() {
  return (
    <section id="schemas">
      <h2>
        <a href="#schemas">Schemas</a>
      </h2>
      {Object.entries(readReference().components.schemas).map(([name, schema]) => (
        <section id={`schema-${name}`} class="schema">
          <h3>
            <a href={`#schema-${name}`}>{name}</a>
          </h3>
          {schema.description !== undefined && (
            <p>
              <InlineText text={schema.description} />
            </p>
          )}
          <Fields schema={schema} isResponse />
        </section>
      ))}
    </section>
  );
}

function Introduction({ origin }: { origin: string }) {
  const { info } = readReference();
  return (
    <header id="top">
      <h1>{info.title}</h1>
      <p class="address">
        <code>{origin}</code> <a href="/api/v1/openapi.json">openapi.json</a>
      </p>
      <Paragraphs text={info.description} />
    </header>
  );
}

/** Shows the reference, rendered from openapi.json. The examples send their requests to `origin`. */
export function Page({ origin }: { origin: string }) {
  const { info, tags } = readReference();
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>{`${info.title} API reference`}</title>
        {/* The style sheet is a constant. The content policy has its hash. */}
        <style dangerouslySetInnerHTML={{ __html: style }} />
      </head>
      <body>
        <a class="skip" href="#main">
          Skip to content
        </a>
        <nav class="side" aria-label="Contents">
          <ContentsView />
        </nav>
        <details class="top">
          <summary>Contents</summary>
          <nav aria-label="Contents">
            <ContentsView />
          </nav>
        </details>
        <main id="main">
          <Introduction origin={origin} />
          {tags.map(({ name, description }) => (
            <section id={anchorOf(name)}>
              <h2>
                <a href={`#${anchorOf(name)}`}>{name}</a>
              </h2>
              <p>
                <InlineText text={description} />
              </p>
              {operationsOf(name).map((listed) => (
                <OperationView listed={listed} origin={origin} />
              ))}
            </section>
          ))}
          <ErrorCodes />
          <Schemas />
        </main>
      </body>
    </html>
  );
}
