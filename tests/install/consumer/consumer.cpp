// A program that uses the installed library: one estimate from text at hand.

#include <iostream>

#include <membudget/membudget.hpp>

int main() {
    const auto document = membudget::read_document_text(
        R"({"membudget": 1, "model": {"parameters": 100000000},
            "training": {"precision": "fp32", "optimizer": "adam"},
            "terms": {"activations": 0, "temporaries": 0}})",
        "adam.json");
    if (!document) return 1;
    const auto estimate = membudget::estimate(document.value());
    if (!estimate) return 1;
    std::cout << estimate->ledger.allocated.point.count() << " bytes\n";
}
