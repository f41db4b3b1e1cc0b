// SPDX-License-Identifier: PostgreSQL
// Draws a dashboard from its JSON with Grafana's own components, against a real Prometheus. This is not a Grafana server:
// no import, no migration, no provisioning, no permissions; state timelines and annotation lines are drawn by us.
import { page } from "./boot.js";

import { ThemeContext, dateTime } from "@grafana/data";
import {
  DataSourceVariable, EmbeddedScene, QueryVariable, SceneControlsSpacer, SceneDataTransformer, SceneGridItem, SceneGridLayout, SceneGridRow,
  SceneQueryRunner, SceneTimePicker, SceneTimeRange, SceneVariableSet, VariableValueSelectors, VizPanel, sceneGraph,
} from "@grafana/scenes";
import { GlobalStyles, PortalContainer } from "@grafana/ui";
import React from "react";
import { createRoot } from "react-dom/client";
import { MemoryRouter } from "react-router-dom";

import { marks } from "./marks.js";
import { register } from "./panels.jsx";
import { UID, events, waiting } from "./prometheus.js";
import { start, theme } from "./services.js";

const variable = (model) => {
  if (model.type === "datasource") {
    return new DataSourceVariable({ name: model.name, label: model.label, pluginId: model.query, value: UID, text: "Prometheus" });
  }
  const value = page.choices[model.name] ?? (model.includeAll ? ["$__all"] : "");
  return new QueryVariable({
    name: model.name, label: model.label, datasource: model.datasource, query: model.query, isMulti: model.multi,
    includeAll: model.includeAll, allValue: model.allValue, refresh: model.refresh, sort: model.sort,
    value: model.multi ? [value].flat() : value, text: model.multi ? [value].flat() : value,
  });
};

const panel = (model) => {
  const runner = new SceneQueryRunner({
    datasource: model.datasource, queries: model.targets, maxDataPoints: model.maxDataPoints, minInterval: model.interval,
    maxDataPointsFromWidth: model.maxDataPoints === undefined,
  });
  const { transformations = [] } = model;
  return new VizPanel({
    title: model.title, description: model.description, pluginId: model.type, options: model.options, fieldConfig: model.fieldConfig,
    $data: transformations.length ? new SceneDataTransformer({ $data: runner, transformations }) : runner,
  });
};

const item = (model, body) =>
  new SceneGridItem({ x: model.gridPos.x, y: model.gridPos.y, width: model.gridPos.w, height: model.gridPos.h, body, isDraggable: false, isResizable: false });

const grid = (panels) => {
  const children = [];
  for (const model of panels) {
    if (model.type === "row") {
      children.push(new SceneGridRow({ title: model.title, y: model.gridPos.y, isCollapsed: false, isCollapsible: false, children: [] }));
      continue;
    }
    const row = children.findLast((child) => child instanceof SceneGridRow);
    if (row) row.setState({ children: [...row.state.children, item(model, panel(model))] });
    else children.push(item(model, panel(model)));
  }
  return new SceneGridLayout({ children, isDraggable: false, isResizable: false });
};

const build = (model) => {
  const range = new SceneTimeRange({ from: page.from, to: page.to, timeZone: "utc" });
  return new EmbeddedScene({
    $timeRange: range,
    $variables: new SceneVariableSet({ variables: model.templating.list.map(variable) }),
    controls: [new VariableValueSelectors({}), new SceneControlsSpacer(), new SceneTimePicker({ isOnCanvas: true })],
    body: grid(model.panels),
  });
};

const App = ({ scene, title }) => (
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <MemoryRouter>
      <div style={{ padding: 12, background: theme.colors.background.canvas, color: theme.colors.text.primary, minHeight: "100vh" }}>
        <h3 style={{ margin: "4px 8px" }}>{title}</h3>
        <scene.Component model={scene} />
      </div>
      <PortalContainer />
    </MemoryRouter>
  </ThemeContext.Provider>
);

const main = async () => {
  start();
  register();
  document.body.style.fontFamily = "DejaVu Sans, sans-serif";
  const model = await (await fetch(`/dashboards/${page.dashboard}.json`)).json();
  const scene = build(model);
  const range = { from: dateTime(page.from), to: dateTime(page.to) };
  marks.show((await Promise.all(model.annotations.list.map((one) => events(scene, one, range)))).flat());
  window.drawn = { waiting, marks: marks.all, scene, sceneGraph };
  createRoot(document.getElementById("root")).render(<App scene={scene} title={model.title} />);
};

main();
