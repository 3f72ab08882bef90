#include <algorithm>
#include <string>
#include <tuple>

#include "catch.hpp"
#include "membudget/scenario.hpp"

using namespace membudget;

namespace {

KeyTree tree(const std::string& json) {
    auto parsed = parse_json(json, "test.json");
    REQUIRE(parsed.ok());
    return std::move(parsed).value();
}

std::string patched(const std::string& target, const std::string& patch) {
    return to_json(merge_patch(tree(target), tree(patch)));
}

}  // namespace

TEST_CASE("merge patches do what RFC 7396, appendix A, says") {
    const auto [target, patch, expected] = GENERATE(table<std::string, std::string, std::string>({
        {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
        {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
        {R"({"a":"b"})", R"({"a":null})", R"({})"},
        {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
        {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
        {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
        {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
        {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
        {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
        {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
        {R"({"a":"foo"})", R"(null)", R"(null)"},
        {R"({"a":"foo"})", R"("bar")", R"("bar")"},
        {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
        {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
        {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
    }));
    CAPTURE(target, patch);
    CHECK(patched(target, patch) == expected);
}

TEST_CASE("the empty patch changes nothing, and a patch applied twice is applied once") {
    const std::string target = R"({"a":{"b":[1,2.5e3,"x"]},"c":null,"d":true})";
    const std::string patch = R"({"a":{"b":null,"e":{"f":1}},"c":3})";
    CHECK(patched(target, "{}") == target);
    const std::string once = patched(target, patch);
    CHECK(patched(once, patch) == once);
}

TEST_CASE("JSON text is compact, keeps numbers as found and escapes what it must") {
    CHECK(to_json(tree(R"( { "a" : [ 1 , -2 , 1.50e2 , true , null ] } )")) ==
          R"({"a":[1,-2,1.50e2,true,null]})");
    CHECK(to_json(KeyTree("quote \" slash \\ line\n bell\x07")) ==
          R"("quote \" slash \\ line\n bell\u0007")");
}

TEST_CASE("a patch for one pointer, and the value at a pointer, are each other's inverse") {
    const auto pointer = GENERATE(as<std::string>{}, "/a", "/a/b/c", "/with~1slash/and~0tilde");
    CAPTURE(pointer);
    const KeyTree patch = patch_at(pointer, KeyTree(std::int64_t{7}));
    REQUIRE(value_at(patch, pointer) != nullptr);
    CHECK(value_at(patch, pointer)->integer() == 7);
}

TEST_CASE("pointers that lead nowhere have no value") {
    const KeyTree spec = tree(R"({"a":{"b":1}})");
    CHECK(value_at(spec, "/a/c") == nullptr);
    CHECK(value_at(spec, "/a/b/c") == nullptr);
    CHECK(value_at(spec, "a") == nullptr);
    CHECK(value_at(spec, "") == &spec);
}

TEST_CASE("paths lie at or below their beginnings only at a slash") {
    CHECK(is_at_or_below("activations/mlp", "activations"));
    CHECK(is_at_or_below("activations", "activations"));
    CHECK_FALSE(is_at_or_below("activations_more", "activations"));
    CHECK_FALSE(is_at_or_below("activations", "activations/mlp"));
}

TEST_CASE("changed knobs are the leaves that differ, in the order of the new document") {
    const KeyTree from = tree(R"({"name":"a","training":{"optimizer":"adamw","step":"first"},
                                  "scenarios":{"x":{}}})");
    const KeyTree to = tree(R"({"name":"b","parallelism":{"data":4,"sharding":"ddp"},
                                "training":{"optimizer":{"name":"adamw"}}})");
    const auto knobs = changed_knobs(from, to);
    REQUIRE(knobs.size() == 4);
    CHECK(knobs[0].pointer == "/parallelism/data");
    CHECK(knobs[0].from == "absent");
    CHECK(knobs[0].to == "4");
    CHECK(knobs[1].pointer == "/parallelism/sharding");
    CHECK(knobs[2].pointer == "/training/optimizer");
    CHECK(knobs[2].from == R"("adamw")");
    CHECK(knobs[2].to == R"({"name":"adamw"})");
    CHECK(knobs[3].pointer == "/training/step");
    CHECK(knobs[3].to == "absent");
    CHECK(changed_knobs(from, from).empty());
}

TEST_CASE("changes mirror each other when the documents change places") {
    const KeyTree a = tree(R"({"x":{"y":1,"z":[1]},"only":{"a":{"deep":true}}})");
    const KeyTree b = tree(R"({"x":{"y":2,"z":[1,2]},"other":{}})");
    auto forward = changed_knobs(a, b), backward = changed_knobs(b, a);
    const auto by_pointer = [](const KnobChange& l, const KnobChange& r) {
        return l.pointer < r.pointer;
    };
    std::sort(forward.begin(), forward.end(), by_pointer);
    std::sort(backward.begin(), backward.end(), by_pointer);
    REQUIRE(forward.size() == backward.size());
    for (std::size_t i = 0; i < forward.size(); ++i) {
        CHECK(forward[i].pointer == backward[i].pointer);
        CHECK(forward[i].from == backward[i].to);
        CHECK(forward[i].to == backward[i].from);
    }
}
