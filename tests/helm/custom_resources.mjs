// Validates the custom resources that stdin holds as a JSON list; prints the complaints as a list of the same length.
// Run with the folder of the validators as working directory: node --input-type=module --eval "$(cat this)" < objects
import { readFileSync } from "node:fs";
import { Certificate } from "@kubernetes-models/cert-manager/cert-manager.io/v1";
import { PodMonitor, PrometheusRule, ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";

const models = { Certificate, PodMonitor, PrometheusRule, ServiceMonitor };

function complaint(object) {
  try {
    new models[object.kind](object).validate();
    return "";
  } catch (error) {
    return `${object.kind}: ${error.message}`;
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(complaint)));
