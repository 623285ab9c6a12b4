/** This is the dashboard's only script. Every page works without it. */

import { drawCharts } from "./charts.ts";
import { copyText } from "./copy.ts";
import { startForms } from "./forms.ts";
import { startShell } from "./shell.ts";
import { startTables } from "./tables.ts";

document.documentElement.dataset.js = "";
startShell();
startForms();
startTables();
drawCharts();
addEventListener("click", (event) => void copyText(event));
