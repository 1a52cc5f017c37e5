// Where mingo is known to differ from MongoDB. A case for which one of these applies is not
// compared. Each name says what mingo does; the tests of lang::mongo have what MongoDB does.

/** Calls `visit` with every name and value of a tree. */
function walk(tree, visit) {
  if (Array.isArray(tree)) tree.forEach((element) => walk(element, visit));
  else if (tree !== null && typeof tree === "object") {
    for (const [name, value] of Object.entries(tree)) {
      visit(name, value);
      walk(value, visit);
    }
  }
}

function some(tree, holds) {
  let found = false;
  walk(tree, (name, value) => (found ||= holds(name, value)));
  return found;
}

const uses = (tree, ...operators) => some(tree, (name) => operators.includes(name));
const isComposite = (value) => value !== null && typeof value === "object";

const isObject = (value) => isComposite(value) && !Array.isArray(value);

/** Whether a document has an array, or one for which `holds`. */
const hasArray = (document, holds = () => true) =>
  some({ document }, (_, value) => Array.isArray(value) && holds(value));
const hasNestedArray = (document) => hasArray(document, (array) => array.some(Array.isArray));
const hasArrayBelowArray = (document) => hasArray(document, (array) => hasArray(array));

/** Whether a filter has a path of several parts, or one for which `holds`. */
const hasPath = (filter, holds = () => true) =>
  some(filter, (name) => name.includes(".") && holds(name));
const hasNull = (filter) =>
  some(filter, (_, value) => value === null || (Array.isArray(value) && value.includes(null)));

export const inFilters = [
  {
    name: "ranges and $all with null leave out what is missing",
    applies: (filter) =>
      some(filter, (name, value) => {
        const operand = name === "$all" && Array.isArray(value) ? value : [value];
        return ["$gte", "$lte", "$all"].includes(name) && operand.includes(null);
      }),
  },
  {
    name: "$type does not look at the elements of arrays",
    applies: (filter, document) => uses(filter, "$type") && hasArray(document),
  },
  {
    name: "$mod makes numbers of text, booleans and null",
    applies: (filter, document) =>
      uses(filter, "$mod") && some({ document }, (_, value) => typeof value !== "number"),
  },
  {
    name: "objects and arrays are ordered by other rules",
    applies: (filter) =>
      some(filter, (name, value) => /^\$[gl]te?$/.test(name) && isComposite(value)),
  },
  {
    name: "$all does not match a value that is no array",
    applies: (filter) => uses(filter, "$all"),
  },
  {
    name: "$regex looks into arrays in arrays",
    applies: (filter, document) => uses(filter, "$regex") && hasNestedArray(document),
  },
  {
    name: "$in and $nin do not compare whole arrays that are empty",
    applies: (filter, document) =>
      uses(filter, "$in", "$nin") && hasArray(document, (array) => array.length === 0),
  },
  {
    name: "$elemMatch with fields matches elements that are no objects",
    applies: (filter, document) =>
      uses(filter, "$elemMatch") &&
      hasArray(document, (array) => array.some((element) => !isObject(element))),
  },
  {
    name: "paths lead through arrays in arrays",
    applies: (filter, document) => hasPath(filter) && hasNestedArray(document),
  },
  {
    name: "elements that a path names by position are spread",
    applies: (filter, document) =>
      hasPath(filter, (path) => /\.\d/.test(path)) && hasArray(document),
  },
  {
    name: "what a path finds in the elements of an array counts as one array",
    applies: (filter, document) =>
      hasPath(filter) &&
      hasArray(document) &&
      (hasNull(filter) ||
        hasArrayBelowArray(document) ||
        uses(filter, "$size", "$exists", "$all", "$elemMatch") ||
        some(filter, (_, value) => Array.isArray(value))),
  },
];

/** Whether an array holds a value twice. */
const repeats = (values) => new Set(values.map((value) => JSON.stringify(value))).size < values.length;

export const inUpdates = [
  {
    name: "$min and $max do not compare values of different types",
    applies: (update) => uses(update, "$min", "$max"),
  },
  {
    name: "null on the way of a path makes way for an object",
    applies: (update, document) =>
      hasPath(update) && some({ document }, (_, value) => value === null),
  },
  {
    name: "paths of updates lead into the elements of arrays",
    applies: (update, document) => hasPath(update) && hasArray(document),
  },
  {
    name: "$pull orders objects and arrays by other rules, $mod makes numbers of booleans",
    applies: (update) =>
      some(update, (name, value) => /^\$[gl]te?$/.test(name) && isComposite(value)) ||
      uses(update, "$mod"),
  },
  {
    name: "$pull and $pullAll compare the elements of arrays in arrays",
    applies: (update, document) => uses(update, "$pull", "$pullAll") && hasNestedArray(document),
  },
  {
    name: "$push does not sort and cut an array that it creates",
    applies: (update) => uses(update, "$sort", "$slice"),
  },
  {
    name: "$addToSet removes values that the array has twice",
    applies: (update, document) =>
      uses(update, "$addToSet") && hasArray(document, (array) => repeats(array)),
  },
  {
    name: "$addToSet keeps values that are repeated in $each",
    applies: (update) => some(update, (name, value) => name === "$each" && repeats(value)),
  },
  {
    name: "$rename leads through arrays",
    applies: (update, document) => uses(update, "$rename") && hasArray(document),
  },
];

export const inPipelines = [
  {
    name: "$zip goes on where the first array is empty",
    applies: (pipeline) => uses(pipeline, "$zip"),
  },
  {
    name: "$toUpper changes letters beyond ASCII",
    applies: (pipeline) => uses(pipeline, "$toUpper"),
  },
  {
    name: "$bucket has buckets that are empty",
    applies: (pipeline) => pipeline.length > 1 && uses(pipeline, "$bucket"),
  },
  {
    name: "what $unwind makes of one document shares its objects",
    applies: (pipeline) => uses(pipeline, "$unwind") && uses(pipeline, "$addFields"),
  },
  {
    name: "$max and $min refuse a single number",
    applies: (pipeline) =>
      uses(pipeline, "$unwind") && uses(pipeline, "$max", "$min", "$sum", "$avg"),
  },
  {
    name: "$mod refuses null",
    applies: (pipeline) => uses(pipeline, "$mod"),
  },
  {
    name: "$first and $last refuse empty arrays",
    applies: (pipeline) => uses(pipeline, "$first", "$last"),
  },
];
