#include "toolkit/passes/einsum.h"

#include <algorithm>

namespace ephost {

bool parse_equation(const std::string& text, const std::vector<size_t>& ranks, Equation* out) {
  std::string plain;
  for (char c : text) {
    if (c != ' ') plain += c;
  }
  const size_t arrow = plain.find("->");
  std::string left = plain.substr(0, arrow);
  std::vector<std::string> terms{""};
  for (char c : left) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != ranks.size()) {
    return false;
  }
  // "..." becomes as many labels as its term has dimensions left.
  size_t widest = 0;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto spread = [&](std::string* term, size_t length) {
    std::string labels;
    for (size_t i = 0; i < length; ++i) {
      labels += static_cast<char>('0' + length - 1 - i);
    }
    const size_t dots = term->find("...");
    if (dots != std::string::npos) term->replace(dots, 3, labels);
    return std::all_of(term->begin(), term->end(),
                       [&](char c) { return is_letter(c) || (c >= '0' && c < '0' + 10); });
  };
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool dots = terms[i].find("...") != std::string::npos;
    const size_t letters = terms[i].size() - (dots ? 3 : 0);
    if (letters > ranks[i] || (!dots && letters != ranks[i]) || ranks[i] - letters > 10) {
      return false;
    }
    widest = std::max(widest, ranks[i] - letters);
    if (!spread(&terms[i], ranks[i] - letters)) {
      return false;
    }
  }
  out->inputs = terms;
  if (arrow == std::string::npos) {
    // Without an output: what "..." stands for, then the labels that come once, in the alphabet's order.
    out->output = "...";
    std::string all;
    for (const std::string& term : terms) all += term;
    std::sort(all.begin(), all.end());
    for (char c : all) {
      if (is_letter(c) && std::count(all.begin(), all.end(), c) == 1) out->output += c;
    }
  } else {
    out->output = plain.substr(arrow + 2);
  }
  if (!spread(&out->output, widest)) {
    return false;
  }
  // Each label of the output is one of an input, and comes once.
  return std::all_of(out->output.begin(), out->output.end(), [&](char c) {
    return std::count(out->output.begin(), out->output.end(), c) == 1 &&
           std::any_of(terms.begin(), terms.end(),
                       [&](const std::string& term) { return term.find(c) != std::string::npos; });
  });
}

namespace {

bool has(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }

bool distinct(const std::string& labels) {
  return std::all_of(labels.begin(), labels.end(),
                     [&](char c) { return std::count(labels.begin(), labels.end(), c) == 1; });
}

// `value`, whose dimensions are labelled `from`, with its dimensions in the order `to`.
Value* ordered(Graph* graph, Value* value, const std::string& from, const std::string& to,
               const std::string& name) {
  if (from == to) {
    return value;
  }
  Value* turned = graph->add_value(name);
  turned->type = value->type;
  std::vector<int64_t> perm;
  for (char c : to) {
    perm.push_back(static_cast<int64_t>(from.find(c)));
    turned->dims.push_back(value->has_shape ? value->dims[from.find(c)] : -1);
  }
  turned->has_shape = true;
  Node* node = graph->add_node("", "Transpose", {value}, {turned}, name);
  node->version = 13;
  node->attributes["perm"] = perm;
  return turned;
}

bool rewrite(Graph* graph, Node* node) {
  if (node->inputs.size() != 2 || node->in(0) == nullptr || node->in(1) == nullptr) {
    return false;
  }
  Value *a = node->in(0), *b = node->in(1);
  // MatMul broadcasts batches as Einsum does, but not what it sums over: a length of 1 there stays with
  // Einsum. Lengths that the model leaves open are taken to be equal.
  Equation e;
  if (!a->has_shape || !b->has_shape || a->type != DType::kFloat || b->type != DType::kFloat ||
      !parse_equation(node->s("equation", ""), {a->dims.size(), b->dims.size()}, &e)) {
    return false;
  }
  const std::string &left = e.inputs[0], &right = e.inputs[1];
  std::string batch, rows, columns, sums;
  for (char c : left) {
    (has(right, c) ? (has(e.output, c) ? batch : sums) : rows) += c;
  }
  for (char c : right) {
    if (!has(left, c)) columns += c;
  }
  const auto kept = [&](const std::string& labels) {
    return !labels.empty() &&
           std::all_of(labels.begin(), labels.end(), [&](char c) { return has(e.output, c); });
  };
  if (!distinct(left) || !distinct(right) || sums.size() != 1 || !kept(rows) || !kept(columns) ||
      (rows.size() > 1 && columns.size() > 1)) {
    return false;
  }
  const int64_t ka = a->dims[left.find(sums[0])], kb = b->dims[right.find(sums[0])];
  if (ka != kb && (ka == 1 || kb == 1)) {
    return false;
  }
  const std::string name = node->name;
  // Batches in the output's order, so that fewer outputs have to be turned.
  for (std::string* labels : {&batch, &rows, &columns}) {
    std::sort(labels->begin(), labels->end(),
              [&](char x, char y) { return e.output.find(x) < e.output.find(y); });
  }
  // Of several rows or columns the last are the matrices', and the others the outermost of the stack: the
  // other input has fewer dimensions, and is broadcast.
  const std::string more_rows = rows.substr(0, rows.size() - 1), row = rows.substr(rows.size() - 1);
  const std::string more_columns = columns.substr(0, columns.size() - 1),
                    column = columns.substr(columns.size() - 1);
  Value* x = ordered(graph, a, left, more_rows + batch + row + sums, name + "/left");
  Value* y = ordered(graph, b, right, more_columns + batch + sums + column, name + "/right");
  const std::string product = more_rows + more_columns + batch + row + column;
  Value* result = node->out();
  graph->remove(node);
  if (product == e.output) {
    graph->add_node("", "MatMul", {x, y}, {result}, name)->version = 13;
    return true;
  }
  Value* plain = graph->add_value(name + "/product");
  plain->type = result->type;
  graph->add_node("", "MatMul", {x, y}, {plain}, name)->version = 13;
  std::vector<int64_t> perm;
  for (char c : e.output) {
    perm.push_back(static_cast<int64_t>(product.find(c)));
  }
  Node* turn = graph->add_node("", "Transpose", {plain}, {result}, name + "/output");
  turn->version = 13;
  turn->attributes["perm"] = perm;
  return true;
}

}  // namespace

void rewrite_einsum(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  bool any = false;
  for (Node* node : nodes) {
    if (!node->removed && node->is("Einsum")) {
      any = rewrite(graph, node) || any;
    }
  }
  if (any) {
    graph->remove_unused();
    graph->sort();
  }
}

}  // namespace ephost
