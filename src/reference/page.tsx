import { type ErrorCode, errorMeaning, errorStatus } from "../errors.ts";
import { Method, OperationView } from "./operation-view.tsx";
import { Fields, InlineText, Paragraphs } from "./schema-view.tsx";
import { operationsOf, readReference } from "./sections.ts";

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

/** The reference's only style sheet. The page must contain it unchanged, because the content policy has its hash. */
const style = `
:root {
  color-scheme: light dark;
  --ground: #ffffff; --raised: #f6f7f9; --line: #e2e5ea; --ink: #1b1f27; --faint: #5b6472; --link: #1d4ed8;
  --get: #1d4ed8; --post: #15753f; --put: #9a5b00; --delete: #b42318;
  --wire: #12161f; --wire-line: #262d3b; --wire-ink: #d7deea; --wire-faint: #94a0b4;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0f1218; --raised: #171c25; --line: #2a313d; --ink: #e4e8ef; --faint: #9aa5b5; --link: #8ab4ff;
    --get: #8ab4ff; --post: #6fd39a; --put: #f0b95c; --delete: #ff9186; --wire: #171c25; --wire-line: #2a313d;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1.5rem; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.6;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover, .type a, p a { text-decoration: underline; text-underline-offset: .2em; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .25rem; letter-spacing: -.02em; }
h2 { font-size: 1.6rem; margin: 0 0 .25rem; letter-spacing: -.01em; }
h3 { font-size: 1.2rem; margin: 0 0 .25rem; }
h4 { font-size: .95rem; margin: 1.5rem 0 .25rem; }
h2 a, h3 a { color: inherit; }
p { margin: .5rem 0; }
code { font-family: var(--mono); font-size: .86em; }
p code, td code { overflow-wrap: anywhere; }
p code, td code, li p code { background: var(--raised); border-radius: 4px; padding: .1em .3em; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--ground); padding: .5rem; z-index: 2; }
.side { position: fixed; inset: 0 auto 0 0; width: 17.5rem; overflow-y: auto; padding: 1.5rem 1rem 2rem 1.25rem;
  background: var(--raised); border-right: 1px solid var(--line); }
.top { display: none; }
.contents, .contents ul { list-style: none; margin: 0; padding: 0; font-size: .88rem; }
.contents > li { margin-bottom: .9rem; }
.contents a { display: flex; justify-content: space-between; align-items: baseline; gap: .5rem; color: var(--faint);
  padding: .15rem .4rem; border-radius: 5px; }
.contents a:hover { background: var(--line); color: var(--ink); text-decoration: none; }
.contents .tag, .contents > li:first-child > a { color: var(--ink); font-weight: 600; }
main { margin-left: 17.5rem; padding: 2.5rem 2.5rem 6rem; max-width: 94rem; }
main > header, main > section > p { max-width: 44rem; }
main > section { padding-top: 2.5rem; margin-top: 2.5rem; border-top: 1px solid var(--line); }
.address { display: flex; gap: 1rem; color: var(--faint); }
.operation { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 30rem); gap: 2.5rem; padding: 2rem 0; }
.operation + .operation { border-top: 1px solid var(--line); }
.wire { position: sticky; top: 1.5rem; align-self: start; }
.route code { font-size: .95em; background: none; padding: 0; overflow-wrap: anywhere; }
.method { font: 600 .68rem/1.4 var(--mono); letter-spacing: .04em; color: var(--get); }
.method.post { color: var(--post); } .method.put, .method.patch { color: var(--put); } .method.delete { color: var(--delete); }
.route .method { font-size: .8rem; border: 1px solid currentColor; border-radius: 5px; padding: .1rem .4rem; margin-right: .3rem; }
.security { color: var(--faint); font-size: .92rem; }
.fields { list-style: none; margin: .5rem 0; padding: 0; border-top: 1px solid var(--line); }
.field { padding: .55rem 0; border-bottom: 1px solid var(--line); }
.field p { margin: .15rem 0 0; color: var(--faint); font-size: .92rem; }
.field .fields { margin-left: .2rem; padding-left: .9rem; border-left: 2px solid var(--line); border-top: 0; }
.field .field:last-child { border-bottom: 0; }
.signature { display: flex; flex-wrap: wrap; gap: .15rem .7rem; align-items: baseline; }
.name { font-weight: 600; }
.type { color: var(--faint); font-size: .88rem; }
.required { color: var(--delete); font-size: .76rem; font-weight: 600; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--link); font-size: .92rem; width: fit-content; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .7rem .4rem 0; border-bottom: 1px solid var(--line); }
th { font: 600 .86rem/1.7 var(--mono); width: 3.2rem; }
figure { margin: 0 0 1rem; background: var(--wire); color: var(--wire-ink); border: 1px solid var(--wire-line);
  border-radius: 10px; overflow: hidden; }
figcaption { padding: .45rem .9rem; font-size: .8rem; color: var(--wire-faint); border-bottom: 1px solid var(--wire-line); }
pre { margin: 0; padding: .8rem .9rem; overflow: auto; max-height: 26rem; font-size: .82rem; line-height: 1.55; tab-size: 2; }
pre code { font-size: inherit; }
pre .key { color: #9ec5ff; } pre .string { color: #a5e0b5; } pre .literal { color: #f5c386; }
.schema { max-width: 44rem; padding: 1.25rem 0; }
:target > .prose > h3, .schema:target > h3 { text-decoration: underline; text-underline-offset: .3em; }
@media (max-width: 75rem) { .operation { grid-template-columns: minmax(0, 1fr); gap: 1rem; } .wire { position: static; } }
@media (max-width: 52rem) {
  .side { display: none; }
  .top { display: block; margin: 0; padding: .8rem 1rem; background: var(--raised); border-bottom: 1px solid var(--line); }
  .top nav { padding-top: .8rem; }
  main { margin: 0; padding: 1.5rem 1rem 4rem; }
}
`;
