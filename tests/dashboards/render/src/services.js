// SPDX-License-Identifier: PostgreSQL
// The services that a Grafana server's page would give to its packages, as far as drawing needs them.
import {
  EventBusSrv, FieldConfigOptionsRegistry, LoadingState, createTheme, identityOverrideProcessor, standardEditorsRegistry,
  standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry,
} from "@grafana/data";
import * as runtime from "@grafana/runtime";
import { sceneUtils } from "@grafana/scenes";
import { catchError, map, of } from "rxjs";

import { page } from "./boot.js";
import { Prometheus, UID } from "./prometheus.js";

export const theme = createTheme({ colors: { mode: page.theme } });
runtime.config.theme2 = theme;

const source = new Prometheus();
const settings = { ...source.instanceSettings, uid: UID, name: "Prometheus", type: "prometheus", isDefault: true, meta: source.meta };

// units, mappings, thresholds, ...: what the override machinery looks up by name
const STANDARD = ["unit", "min", "max", "decimals", "displayName", "noValue", "color", "mappings", "thresholds", "links", "filterable",
                  "fieldMinMax", "actions"];
const item = (id, path = id) => ({
  id, path, name: id, isCustom: false, editor: () => null, override: () => null, process: identityOverrideProcessor,
  shouldApply: () => true, settings: {},
});

const run = (datasource, request) =>
  datasource.query(request).pipe(
    map(({ data }) => ({ state: LoadingState.Done, series: data, timeRange: request.range, request })),
    catchError((error) => of({ state: LoadingState.Error, series: [], error: { message: error.message }, timeRange: request.range, request }))
  );

export const start = () => {
  standardEditorsRegistry.setInit(() => []);
  standardFieldConfigEditorRegistry.setInit(() => STANDARD.map((id) => item(id)));
  const unique = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
  standardTransformersRegistry.setInit(() => [...unique.values()].map((one) => ({
    id: one.id, name: one.name, editor: () => null, transformation: async () => one,
  })));
  runtime.setAppEvents(new EventBusSrv());
  runtime.setDataSourceSrv({
    get: async () => source, getList: () => [settings], getInstanceSettings: () => settings, reload: () => {}, registerRuntimeDataSource: () => {},
  });
  runtime.setPluginImportUtils({
    importPanelPlugin: async (id) => { throw new Error(`no panel of kind ${id}`); }, getPanelPluginFromCache: () => undefined,
  });
  runtime.setRunRequest(run);
  runtime.setPluginLinksHook?.(() => ({ links: [], isLoading: false }));
  sceneUtils.registerRuntimeDataSource({ dataSource: source });
};
export { FieldConfigOptionsRegistry };
