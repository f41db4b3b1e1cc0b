// SPDX-License-Identifier: PostgreSQL
// The kinds of panels: Grafana's own components behind the contract of a panel plugin; the state timeline is ours.
import {
  FieldColorModeId, FieldType, PanelPlugin, VizOrientation, cacheFieldDisplayNames, getDisplayProcessor, getFieldDisplayName,
  getFieldDisplayValues, identityOverrideProcessor,
} from "@grafana/data";
import { sceneUtils } from "@grafana/scenes";
import { BigValue, TimeSeries, VizRepeater, useTheme2 } from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import React from "react";

import { marks } from "./marks.js";

const Empty = ({ width, height, words }) => (
  <div style={{ width, height, display: "grid", placeItems: "center" }}>{words ?? "No data"}</div>
);

const numbers = (frames) => frames.flatMap((frame) => frame.fields.filter((field) => field.type === FieldType.number));
const noData = ({ data, fieldConfig, ...box }) => <Empty {...box} words={fieldConfig.defaults.noValue} />;

const Stat = ({ data, options, fieldConfig, replaceVariables, timeZone, width, height }) => {
  const theme = useTheme2();
  const values = () => getFieldDisplayValues({
    fieldConfig, reduceOptions: options.reduceOptions, replaceVariables, theme, data: data.series, timeZone,
  });
  const draw = ({ value, width, height }) => (
    <BigValue value={value.display} width={width} height={height} theme={theme} colorMode={options.colorMode} graphMode="none"
      justifyMode={options.justifyMode} textMode={value.hasValue === false ? "value" : options.textMode} wideLayout />
  );
  return <VizRepeater getValues={values} source={data} renderValue={draw} width={width} height={height} orientation={VizOrientation.Auto} />;
};

const Series = (props) => {
  const { data, options, width, height, timeZone, timeRange } = props;
  if (numbers(data.series).length === 0) return noData(props);
  return (
    <TimeSeries frames={data.series} timeRange={timeRange} timeZone={timeZone} width={width} height={height} legend={options.legend}
      options={options} structureRev={data.structureRev}>
      {(builder) => {
        builder.addHook("draw", marks.draw);
        return null;
      }}
    </TimeSeries>
  );
};

const Table = ({ data, options, width, height, timeRange }) => {
  const frame = data.series[0];
  if (!frame || frame.length === 0) return <Empty width={width} height={height} />;
  cacheFieldDisplayNames(data.series);
  return (
    <TableNG data={frame} width={width} height={height} initialSortBy={options.sortBy} showTypeIcons={false} timeRange={timeRange}
      cellHeight={options.cellHeight} noHeader={!options.showHeader} />
  );
};

// Bands of equal values, one a series; words and colours come from the real mappings.
const bands = (field, times, end) => {
  const found = [];
  field.values.forEach((value, i) => {
    const last = found.at(-1);
    const until = i + 1 < times.length ? times[i + 1] : end;
    if (value === null || value === undefined) return;
    if (last && last.value === value && last.until === times[i]) last.until = until;
    else found.push({ value, since: times[i], until });
  });
  return found;
};

const Timeline = (props) => {
  const { data, width, height, timeRange, timeZone } = props;
  const theme = useTheme2();
  const [start, end] = [timeRange.from.valueOf(), timeRange.to.valueOf()];
  const rows = data.series.flatMap((frame) => numbers([frame]).map((field) => ({
    name: getFieldDisplayName(field, frame, data.series), field,
    display: field.display ?? getDisplayProcessor({ field, theme, timeZone }),
    times: frame.fields.find((other) => other.type === FieldType.time).values,
  })));
  if (rows.length === 0) return noData(props);
  const label = Math.min(Math.max(...rows.map(({ name }) => name.length)) * 7 + 12, width / 3);
  const each = (height - 22) / rows.length;
  const x = (time) => label + ((Math.max(time, start) - start) / (end - start)) * (width - label);
  const ink = theme.colors.text.primary;
  return (
    <svg width={width} height={height} fontSize={Math.min(12, each * 0.75)} fontFamily="DejaVu Sans, sans-serif">
      {rows.map(({ name, field, display, times }, i) => (
        <g key={name} transform={`translate(0 ${i * each})`}>
          <text x={label - 8} y={each / 2} textAnchor="end" dominantBaseline="central" fill={ink}>{name}</text>
          {bands(field, times, end).map(({ value, since, until }) => {
            const { text, color } = display(value);
            const long = x(until) - x(since);
            return (
              <g key={since}>
                <rect x={x(since)} y={each * 0.08} width={Math.max(long, 1)} height={each * 0.84} fill={color} fillOpacity="0.85" />
                {long > text.length * 8 && (
                  <text x={x(since) + 6} y={each / 2} dominantBaseline="central" fill={theme.colors.getContrastText(color)}>{text}</text>
                )}
              </g>
            );
          })}
        </g>
      ))}
      {[0, 0.25, 0.5, 0.75, 1].map((part) => (
        <text key={part} x={label + part * (width - label)} y={height - 6} fill={ink} opacity="0.7" fontSize="11"
          textAnchor={part === 1 ? "end" : part === 0 ? "start" : "middle"}>
          {new Date(start + part * (end - start)).toISOString().slice(11, end - start < 1_800_000 ? 19 : 16)}
        </text>
      ))}
    </svg>
  );
};

// What a panel's own settings may be overridden by name.
const OWN = ["align", "axisSoftMin", "cellOptions", "drawStyle", "fillOpacity", "filterable", "lineStyle", "lineWidth", "showPoints", "spanNulls",
             "stacking", "thresholdsStyle", "width"];
const colours = { defaultValue: { mode: FieldColorModeId.Thresholds } };

export const register = () => {
  for (const [id, Component] of [["stat", Stat], ["timeseries", Series], ["table", Table], ["state-timeline", Timeline]]) {
    const plugin = new PanelPlugin(Component).useFieldConfig({
      standardOptions: { color: colours },
      useCustomConfig: (builder) => OWN.forEach((path) => builder.addCustomEditor({
        id: path, path, name: path, editor: () => null, override: () => null, process: identityOverrideProcessor, shouldApply: () => true,
      })),
    });
    sceneUtils.registerRuntimePanelPlugin({ pluginId: id, plugin });
  }
};
