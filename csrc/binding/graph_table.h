// Captured graphs by number, of one environment. Numbers are not used again.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "runtime/captured_graph.h"

namespace warpgraph {

class GraphTable {
 public:
  double add(std::unique_ptr<CapturedGraph> graph) {
    graphs_[next_] = std::move(graph);
    return next_++;
  }
  // Null when the number names no live graph.
  CapturedGraph* find(double number) const {
    const auto entry = graphs_.find(number);
    return entry == graphs_.end() ? nullptr : entry->second.get();
  }
  void release(double number) { graphs_.erase(number); }
  void clear() { graphs_.clear(); }

 private:
  std::map<double, std::unique_ptr<CapturedGraph>> graphs_;
  double next_ = 0;
};

}  // namespace warpgraph
