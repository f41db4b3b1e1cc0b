// SPDX-License-Identifier: PostgreSQL
// What Grafana's packages expect of the page before the first of them is loaded.
const asked = new URLSearchParams(window.location.search);

export const page = {
  dashboard: asked.get("dashboard"),
  theme: asked.get("theme") ?? "dark",
  from: asked.get("from"),
  to: asked.get("to"),
  choices: JSON.parse(asked.get("choices") ?? "{}"),
};

window.grafanaBootData = {
  settings: { featureToggles: {}, buildInfo: { version: "13.2.3", env: "production" }, panels: {}, datasources: {}, theme2: {} },
  user: { isSignedIn: true, theme: page.theme, timezone: "utc", language: "en-US", regionalFormat: "en-US", locale: "en-US" },
  navTree: [],
};
