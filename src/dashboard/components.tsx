import type { Child } from "hono/jsx";
import { AppLink } from "./app-link.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { UnitAmount } from "./unit-amount.tsx";

let ids = 0;
/** Returns an id for a label and its control, unique in a page. */
export const nextId = (name: string): string => {
  ids = (ids + 1) % 1_000_000;
  return `${name.replace(/[^a-zA-Z0-9]/g, "-")}-${ids}`;
};

export interface CardProps {
  readonly title: string;
  readonly id?: string | undefined;
  /** Says what the part has, under its head. */
  readonly about?: Child;
  readonly children?: Child;
}

/** Shows a part of a page, with its head. */
export const Card = ({ title, id, about, children }: CardProps) => (
  <section class="card" id={id}>
    <h2>{title}</h2>
    {about !== undefined && <p class="soft">{about}</p>}
    {children}
  </section>
);

/** A name and its value. Nothing is shown of a fact that does not apply. */
export type ShownFact = readonly [name: Child, value: Child] | false | null;

/** Shows facts about one thing, each in a line. */
export const Facts = ({ of, label }: { of: readonly ShownFact[]; label?: string }) => (
  <dl class="facts" aria-label={label}>
    {of.map((fact) =>
      fact ? (
        <>
          <dt>{fact[0]}</dt>
          <dd>{fact[1]}</dd>
        </>
      ) : null,
    )}
  </dl>
);

/** A tab: the id of its panel, its name, and its content. */
export interface Tab {
  readonly id: string;
  readonly name: Child;
  readonly children: Child;
}

/** Shows one of several panels, which the script chooses by their tabs. Without it, the tabs are links to the panels. */
export const Tabs = ({ label, tabs }: { label: string; tabs: readonly Tab[] }) => (
  <div data-tabs>
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ id, name }) => (
        <a href={`#${id}`}>{name}</a>
      ))}
    </nav>
    {tabs.map(({ id, children }) => (
      <div id={id} data-tab>
        {children}
      </div>
    ))}
  </div>
);

/** Shows why a list is empty, and what to do. */
export const Empty = ({ icon, title, children }: { icon: IconName; title: string; children?: Child }) => (
  <div class="empty">
    <Icon name={icon} />
    <b>{title}</b>
    {children !== undefined && <p class="soft">{children}</p>}
  </div>
);

/** Shows an id with a button that copies all of it. A long id is shortened; a name that people chose may be longer. */
export const Id = ({ id, to, isName = false }: { id: string; to?: string; isName?: boolean }) => (
  <span class={isName ? "id name" : "id"}>
    {to === undefined ? (
      <code title={id}>{id}</code>
    ) : (
      <AppLink to={to}>
        <code title={id}>{id}</code>
      </AppLink>
    )}
    <button type="button" class="bare js" data-copy-text={id} title="Copy" aria-label={`Copy ${id}`}>
      <Icon name="copy" />
    </button>
  </span>
);

/** Shows the actions for a row in a menu behind three dots. */
export const RowMenu = ({ label, children }: { label: string; children: Child }) => (
  <details class="row-menu">
    <summary aria-label={label}>
      <Icon name="more" />
    </summary>
    <div class="menu-list">{children}</div>
  </details>
);

/** Shows a secret or a link, with a button to copy it. */
export const CopyBox = (props: { label: string; value: string }) => {
  const id = nextId("copy");
  return (
    <div class="copy">
      <label for={id}>{props.label}</label>
      <input id={id} readonly value={props.value} />
      <button type="button" data-copy={id}>
        Copy
      </button>
      <span role="status" data-copied={id} />
    </div>
  );
};

interface SubmitProps {
  readonly text: string;
  readonly kind?: "main" | "quiet" | "small" | "danger";
  readonly name?: string;
  readonly value?: string;
  /** The id of the form, if it is not around the button. */
  readonly form?: string;
  /** Read aloud in place of the text. */
  readonly label?: string;
}

const SUBMIT_CLASSES = { main: undefined, quiet: "quiet", small: "quiet small", danger: "danger" } as const;

/** Shows a button that sends its form. */
export const SubmitButton = ({ text, kind = "main", label, ...button }: SubmitProps) => (
  <button type="submit" class={SUBMIT_CLASSES[kind]} {...button} aria-label={label}>
    {text}
  </button>
);

/** Shows a new secret, once. Nothing otherwise. */
export const SecretCard = ({ title, about = "", label, secret }: SecretCardProps) =>
  secret === undefined ? null : (
    <Card title={title}>
      <p>Copy it now: it is not shown again. {about}</p>
      <CopyBox label={label} value={secret} />
    </Card>
  );

interface SecretCardProps {
  readonly title: string;
  readonly about?: string;
  readonly label: string;
  readonly secret: string | undefined;
}

interface PagerProps {
  /** The first page of the list. Null on the first page. */
  readonly first: string | null;
  /** The next page of the list. Null on the last page. */
  readonly next: string | null;
  /** The texts of both links. */
  readonly words?: readonly [first: string, next: string];
}

/** Shows the links between the pages of a list. */
export const Pager = ({ first, next, words: [toFirst, toNext] = ["Newest", "Older"] }: PagerProps) =>
  first === null && next === null ? null : (
    <p>
      {first !== null && <a href={first}>{toFirst}</a>} {next !== null && <a href={next}>{toNext}</a>}
    </p>
  );

interface AmountsProps {
  readonly of: readonly { readonly unit: string; readonly amount: number }[];
  /** Returns the path of the page that the amount of a unit links to. */
  readonly pathOf?: (unit: string) => string;
}

/** Shows amounts of several units, one on each line. */
export const Amounts = ({ of, pathOf }: AmountsProps) => (
  <div>
    {of.length === 0 && "nothing"}
    {of.map((each) => {
      const text = <UnitAmount of={each.amount} unit={each.unit} />;
      return <div class="num">{pathOf === undefined ? text : <AppLink to={pathOf(each.unit)}>{text}</AppLink>}</div>;
    })}
  </div>
);

export const Tag = (props: { kind: string; children: Child }) => (
  <span class={`tag ${props.kind}`}>{props.children}</span>
);
