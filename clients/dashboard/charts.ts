import uPlot from "uplot";

const HEIGHT = 190;
const DAY_SECONDS = 86_400;
/** The steps between dates of an axis, in days. The library's own begin below a day, and would repeat dates. */
const DAY_STEPS = [1, 2, 7, 14, 28, 56, 112].map((days) => days * DAY_SECONDS);

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Returns a colour of the stylesheet, as it is now in light or dark. */
function colour(of: Element, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  of.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

interface Table {
  readonly names: readonly string[];
  readonly times: number[];
  readonly values: (number | null)[][];
  /** The page that each value links to, by series. */
  readonly links: readonly (readonly (string | undefined)[])[];
}

/** Reads the figure's own table, which has a row for each moment and a column for each series. */
function readTable(table: HTMLTableElement): Table {
  const rows = Array.from(table.tBodies[0]?.rows ?? []);
  const names = Array.from(table.tHead?.rows[0]?.cells ?? [], (cell) => cell.textContent ?? "").slice(1);
  return {
    names,
    times: rows.map((row) => Date.parse(row.cells[0]?.dataset.at ?? "") / 1_000),
    values: names.map((_, column) =>
      rows.map((row) => {
        const text = row.cells[column + 1]?.dataset.value;
        return text === undefined ? null : Number(text);
      }),
    ),
    links: names.map((_, column) => rows.map((row) => row.cells[column + 1]?.querySelector("a")?.href)),
  };
}

const dateText = (seconds: number, hasTime: boolean): string =>
  new Intl.DateTimeFormat("en", {
    day: "numeric",
    month: "short",
    timeZone: "UTC",
    ...(hasTime ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : {}),
  }).format(seconds * 1_000);

/** Returns the link of the value that is nearest to the pointer. */
function linkAt({ cursor: { idx, top = 0 }, valToPos }: uPlot, { values, links }: Table): string | undefined {
  if (idx === null || idx === undefined) return undefined;
  const linked = links.map((ofSeries, column) => ({
    link: ofSeries[idx],
    away: Math.abs(valToPos(values[column]?.[idx] ?? 0, "y") - top),
  }));
  return linked.filter(({ link }) => link !== undefined).toSorted((a, b) => a.away - b.away)[0]?.link;
}

/** Shows the values of the moment under the pointer. */
function tooltip(holder: HTMLElement, table: Table, hasTime: boolean): uPlot.Plugin {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  return {
    hooks: {
      init: (plot) => {
        plot.over.append(tip);
        plot.over.addEventListener("mouseleave", () => {
          tip.hidden = true;
        });
        plot.over.addEventListener("click", () => {
          const link = linkAt(plot, table);
          if (link !== undefined) location.href = link;
        });
      },
      setCursor: (plot) => {
        const { idx, left = 0 } = plot.cursor;
        tip.hidden = idx === null || idx === undefined || left < 0;
        if (idx === null || idx === undefined) return;
        const head = document.createElement("b");
        head.textContent = dateText(table.times[idx] ?? 0, hasTime);
        const lines = table.names.map((name, column) => {
          const line = document.createElement("div");
          const value = table.values[column]?.[idx];
          const label = document.createElement("span");
          const amount = document.createElement("span");
          label.textContent = name;
          amount.textContent = value === null || value === undefined ? "–" : number.format(value);
          line.append(label, amount);
          return line;
        });
        tip.replaceChildren(head, ...lines);
        const room = plot.over.clientWidth - tip.offsetWidth - 8;
        tip.style.transform = `translate(${Math.max(0, Math.min(left + 12, room))}px, 4px)`;
        holder.classList.toggle("can-open", linkAt(plot, table) !== undefined);
      },
    },
  };
}

/** Bars show one figure by day, lines several. */
const hasBars = (kind: string, names: readonly string[]): boolean => kind === "days" && names.length === 1;

function seriesOf(holder: HTMLElement, kind: string, { names }: Table): uPlot.Series[] {
  return names.map((label, index) => {
    const probe = document.createElement("i");
    probe.className = `s${index}`;
    holder.append(probe);
    const stroke = colour(probe, "--series");
    probe.remove();
    const isBefore = label.endsWith("before");
    if (kind === "steps") {
      const paths = uPlot.paths.stepped?.({ align: 1 });
      return {
        label,
        stroke,
        width: 2,
        fill: `color-mix(in srgb, ${stroke} 14%, transparent)`,
        points: { show: false },
        ...(paths === undefined ? {} : { paths }),
      };
    }
    if (hasBars(kind, names)) {
      const bars = uPlot.paths.bars?.({ size: [0.62, 28], radius: 0.12 });
      return {
        label,
        stroke,
        fill: stroke,
        width: 0,
        points: { show: false },
        ...(bars === undefined ? {} : { paths: bars }),
      };
    }
    if (isBefore) return { label, stroke, width: 1.5, dash: [4, 4], points: { show: false } };
    return {
      label,
      stroke,
      width: 2,
      points: { show: false },
      ...(index === 0 ? { fill: `color-mix(in srgb, ${stroke} 12%, transparent)` } : {}),
    };
  });
}

function draw(figure: HTMLElement): void {
  const holder = figure.querySelector<HTMLElement>(".plot");
  const source = figure.querySelector<HTMLTableElement>("table");
  if (holder === null || source === null) return;
  const table = readTable(source);
  const kind = figure.dataset.chart ?? "days";
  const hasTime = kind === "steps";
  const halfDay = DAY_SECONDS / 2;
  // The first and the last bar need room.
  const barScale: uPlot.Scale = { range: (_, first, last) => [first - halfDay, last + halfDay] };
  const axis = {
    stroke: colour(holder, "--soft"),
    grid: { stroke: colour(holder, "--line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui",
  };
  holder.replaceChildren();
  const plot = new uPlot(
    {
      width: holder.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC"),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: {
        ...(hasBars(kind, table.names) ? { x: barScale } : {}),
        y: { range: (_, __, most) => [0, most <= 0 ? 1 : most * 1.08] },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          values: (_, splits) => splits.map((at) => dateText(at, false)),
          space: 70,
          size: 30,
          ...(hasTime ? {} : { incrs: DAY_STEPS }),
        },
        { ...axis, size: 52, values: (_, splits) => splits.map((value) => short.format(value)) },
      ],
      series: [{}, ...seriesOf(holder, kind, table)],
      plugins: [tooltip(holder, table, hasTime)],
    },
    [table.times, ...table.values],
    holder,
  );
  new ResizeObserver(() => {
    if (holder.clientWidth > 0 && holder.clientWidth !== plot.width)
      plot.setSize({ width: holder.clientWidth, height: HEIGHT });
  }).observe(holder);
}

/** Draws each figure from its table, and again when the colour scheme changes. */
export function drawCharts(): void {
  const figures = document.querySelectorAll<HTMLElement>("[data-chart]");
  const drawAll = () => {
    for (const figure of figures) draw(figure);
  };
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
