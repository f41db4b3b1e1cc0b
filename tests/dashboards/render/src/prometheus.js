// SPDX-License-Identifier: PostgreSQL
// A data source that asks Prometheus as Grafana's does: the same steps, escaping, names of columns, and gaps.
import { FieldType, LoadingState } from "@grafana/data";
import { RuntimeDataSource, sceneGraph } from "@grafana/scenes";
import { from } from "rxjs";

export const UID = "drawn";
const SCRAPE = 15;
export const waiting = { asked: 0, answered: 0, refused: [] };

const api = async (path, params) => {
  waiting.asked++;
  try {
    const answer = await (await fetch(`/api/v1/${path}`, { method: "POST", body: new URLSearchParams(params) })).json();
    if (answer.status !== "success") {
      waiting.refused.push(`${answer.error}: ${params.query}`);
      throw new Error(answer.error);
    }
    return answer.data;
  } finally {
    waiting.answered++;
  }
};

const escaped = (value) => value.replace(/\\/g, "\\\\\\\\").replace(/[$^*{}[\]+?.()|]/g, "\\\\$&");

const chosen = (value, variable) => {
  if (!variable.multi && !variable.includeAll) {
    return String(value).replace(/\\/g, "\\\\").replace(/"/g, '\\"');
  }
  const all = [value].flat().map(escaped);
  return all.length === 1 ? all[0] : `(${all.join("|")})`;
};

export const filled = (scene, text, step = SCRAPE) =>
  sceneGraph.interpolate(
    scene,
    text.replaceAll("$__rate_interval", `${Math.max(step + SCRAPE, 4 * SCRAPE)}s`),
    undefined,
    chosen
  );

const legend = (format, labels) => format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? "");

const overTime = (target, rows, start, end, step) =>
  rows.map(({ metric, values }) => {
    const at = new Map(values.map(([time, value]) => [time, Number(value)]));
    const times = [];
    for (let time = start; time <= end; time += step) times.push(time);
    return {
      refId: target.refId,
      length: times.length,
      fields: [
        { name: "Time", type: FieldType.time, config: { interval: step * 1000 }, values: times.map((time) => time * 1000) },
        {
          name: "Value",
          type: FieldType.number,
          labels: metric,
          config: { displayNameFromDS: legend(target.legendFormat ?? "", metric) || undefined },
          values: times.map((time) => at.get(time) ?? null),
        },
      ],
    };
  });

const asTable = (target, rows, alone) => {
  const names = [...new Set(rows.flatMap(({ metric }) => Object.keys(metric)))].filter((name) => name !== "__name__");
  const column = (name, type, values) => ({ name, type, config: {}, values });
  return [
    {
      refId: target.refId,
      length: rows.length,
      fields: [
        column("Time", FieldType.time, rows.map(({ value }) => value[0] * 1000)),
        ...names.map((name) => column(name, FieldType.string, rows.map(({ metric }) => metric[name] ?? ""))),
        column(alone ? "Value" : `Value #${target.refId}`, FieldType.number, rows.map(({ value }) => Number(value[1]))),
      ],
    },
  ];
};

export class Prometheus extends RuntimeDataSource {
  constructor() {
    super("prometheus", UID);
  }

  query(request) {
    return from(this.answer(request));
  }

  async answer(request) {
    const scene = request.scopedVars.__sceneObject.valueOf();
    const [from_, to] = [request.range.from.unix(), request.range.to.unix()];
    const points = request.maxDataPoints ?? 600;
    const step = Math.max(Math.ceil((to - from_) / points), Math.round(request.intervalMs / 1000), SCRAPE);
    const start = Math.floor(from_ / step) * step;
    const data = await Promise.all(
      request.targets.map(async (target) => {
        const query = filled(scene, target.expr, step);
        if (!target.instant) {
          return overTime(target, (await api("query_range", { query, start, end: to, step })).result, start, to, step);
        }
        const rows = (await api("query", { query, time: to })).result;
        if (target.format === "table") return asTable(target, rows, request.targets.length === 1);
        return overTime(target, rows.map(({ metric, value }) => ({ metric, values: [value] })), to, to, 1);
      })
    );
    return { data: data.flat(), state: LoadingState.Done };
  }

  async metricFindQuery(query, options) {
    const scene = options.scopedVars.__sceneObject.valueOf();
    const [, selector, label] = /^label_values\((?:(.+),\s*)?(\w+)\)$/s.exec(filled(scene, query.query));
    const { from: start, to: end } = options.range;
    const series = await api("series", { "match[]": selector, start: start.unix(), end: end.unix() });
    return [...new Set(series.map((row) => row[label]).filter(Boolean))].sort().map((text) => ({ text, value: text }));
  }
}

// The events of one annotation: its values are the times themselves.
export const events = async (scene, annotation, range) => {
  const [start, end] = [range.from.unix(), range.to.unix()];
  const rows = (await api("query_range", { query: filled(scene, annotation.expr, 60), start, end, step: 60 })).result;
  const times = rows.flatMap(({ values }) => values.map(([, value]) => Number(value)));
  return [...new Set(times)].filter((time) => time >= start * 1000 && time <= end * 1000)
    .map((time) => ({ time, colour: annotation.iconColor, name: annotation.name }));
};
