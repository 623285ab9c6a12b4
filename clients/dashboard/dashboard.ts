/** This is the dashboard's only script. Every page works without it. */

import { drawCharts } from "./charts.ts";
import { copyText } from "./copy.ts";
import { startForms } from "./forms.ts";
import { startShell } from "./shell.ts";
import { startTables } from "./tables.ts";
import { startTabs } from "./tabs.ts";

document.documentElement.dataset.js = "";
startShell();
startForms();
startTables();
startTabs();
drawCharts();
addEventListener("click", (event) => void copyText(event));
