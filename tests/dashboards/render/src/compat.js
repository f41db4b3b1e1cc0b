// SPDX-License-Identifier: PostgreSQL
import { getDataSourceSrv } from "@grafana/runtime";

export const getDataSourceInstanceList = async (filters) => getDataSourceSrv().getList(filters);
export const getDefaultDataSourceInstanceListItem = async (list) => list[0];
export const getDataSourceInstanceSettings = async (ref) => getDataSourceSrv().getInstanceSettings(ref);
export const getDataSourceInstance = async (ref) => getDataSourceSrv().get(ref);
