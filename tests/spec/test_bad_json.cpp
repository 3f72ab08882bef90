#include "catch.hpp"
#include "membudget/spec.hpp"

#include <string>
#include <vector>

#include "spec/shown.hpp"

using namespace membudget;

namespace {
struct Case {
    std::string document;
    std::string errors;
};
}  // namespace

TEST_CASE("what is no JSON is refused with its place and the reason", "[spec]") {
    const std::vector<Case> cases{
        {"",
         "error: expected a JSON document; got an empty file\n"},
        {"  \n",
         "error: expected a JSON document; got only blank space\n"},
        {"{",
         "error: line 1, column 2: expected a key or '}'; got the end of the file\n"},
        {"[",
         "error: line 1, column 2: expected a value or ']'; got the end of the file\n"},
        {R"J({"a")J",
         "error: line 1, column 5: expected ':'; got the end of the file\n"},
        {R"J({"a":)J",
         "error: line 1, column 6: expected a value; got the end of the file\n"},
        {R"J({"a":1)J",
         "error: line 1, column 7: expected ',' or '}'; got the end of the file\n"},
        {R"J({"a":1,)J",
         "error: line 1, column 8: expected a key; got the end of the file\n"},
        {"{\n"
         "  \"a\": {\n"
         "    \"b\": [1,",
         "error: line 3, column 13: expected a value; got the end of the file\n"},
        {R"J({"a":1,})J",
         "error: line 1, column 8: expected a key; got '}'\n"
         "  hint: remove the comma before it\n"},
        {"[1,]",
         "error: line 1, column 4: expected a value; got ']'\n"
         "  hint: remove the comma before it\n"},
        {"[1 2]",
         "error: line 1, column 4: expected ',' or ']'; got '2'\n"},
        {R"J({"a" 1})J",
         "error: line 1, column 6: expected ':'; got '1'\n"},
        {R"J({"a":1 "b":2})J",
         "error: line 1, column 8: expected ',' or '}'; got a string ('b')\n"},
        {"{a:1}",
         "error: line 1, column 2: expected a key or '}'; got 'a'\n"
         "  hint: keys stand in double quotes\n"},
        {"{'a':1}",
         "error: line 1, column 2: expected a key or '}'; got ''a''\n"
         "  hint: JSON strings stand in double quotes\n"},
        {R"J({"a":NaN})J",
         "error: line 1, column 6: expected a value; got 'NaN'\n"
         "  hint: JSON has no NaN and no infinity\n"},
        {"[-Infinity]",
         "error: line 1, column 2: expected a value or ']'; got '-Infinity'\n"
         "  hint: JSON has no NaN and no infinity\n"},
        {"[nan]",
         "error: line 1, column 2: expected a value or ']'; got 'nan'\n"
         "  hint: JSON has no NaN and no infinity\n"},
        {"[True]",
         "error: line 1, column 2: expected a value or ']'; got 'True'\n"
         "  hint: write true\n"},
        {"[False]",
         "error: line 1, column 2: expected a value or ']'; got 'False'\n"
         "  hint: write false\n"},
        {"[None]",
         "error: line 1, column 2: expected a value or ']'; got 'None'\n"
         "  hint: write null\n"},
        {"[1e999]",
         "error: line 1, column 2: expected a number of at most 1.8e308; got '1e999'\n"},
        {"[-1e999]",
         "error: line 1, column 2: expected a number of at most 1.8e308; got '-1e999'\n"},
        {"[01]",
         "error: line 1, column 2: expected a value or ']'; got '01'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"[1.]",
         "error: line 1, column 2: expected a value or ']'; got '1.'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"[.5]",
         "error: line 1, column 2: expected a value or ']'; got '.5'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"[+1]",
         "error: line 1, column 2: expected a value or ']'; got '+1'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"[0x10]",
         "error: line 1, column 2: expected a value or ']'; got '0x10'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"[1_000]",
         "error: line 1, column 2: expected a value or ']'; got '1_000'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"[1e]",
         "error: line 1, column 2: expected a value or ']'; got '1e'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"[-]",
         "error: line 1, column 2: expected a value or ']'; got '-'\n"
         "  hint: JSON writes numbers such as 12, -3, 0.5 and 6.02e23\n"},
        {"// x\n"
         "{}",
         "error: line 1, column 1: expected a JSON value; got '//'\n"
         "  hint: JSON has no comments\n"},
        {"{} # c",
         "error: line 1, column 4: expected the end of the document; got '#'\n"
         "  hint: JSON has no comments\n"},
        {"{}{}",
         "error: line 1, column 3: expected the end of the document; got '{'\n"
         "  hint: a file holds one JSON document\n"},
        {"{}\n"
         "{}",
         "error: line 2, column 1: expected the end of the document; got '{'\n"
         "  hint: a file holds one JSON document\n"},
        {"{} x",
         "error: line 1, column 4: expected the end of the document; got 'x'\n"
         "  hint: a file holds one JSON document\n"},
        {R"J("abc)J",
         "error: line 1, column 1: expected '\"' at the end of the string that begins here; got "
         "the end of the file\n"},
        {"[\"a\n"
         "b\"]",
         "error: line 1, column 2: expected '\"' at the end of the string that begins here; got "
         "the end of the line\n"},
        {"[\"a\tb\"]",
         "error: line 1, column 4: expected an escape such as '\\t' or '\\u0001' in a string; "
         "got a control character (0x09)\n"},
        {"[\"a\001b\"]",
         "error: line 1, column 4: expected an escape such as '\\t' or '\\u0001' in a string; "
         "got a control character (0x01)\n"},
        {R"J(["\x41"])J",
         "error: line 1, column 3: expected one of JSON's escapes; got '\\x'\n"},
        {R"J(["\u12"])J",
         "error: line 1, column 3: expected one of JSON's escapes; got '\\u12'\n"},
        {R"J(["\uzzzz"])J",
         "error: line 1, column 3: expected one of JSON's escapes; got '\\uzzzz'\n"},
        {R"J(["\ud800"])J",
         "error: line 1, column 3: expected one of JSON's escapes; got '\\ud800'\n"},
        {R"J(["\ud800x"])J",
         "error: line 1, column 3: expected one of JSON's escapes; got '\\ud800x'\n"},
        {R"J(["\ud800\ud800"])J",
         "error: line 1, column 3: expected one of JSON's escapes; got '\\ud800\\ud800'\n"},
        {R"J(["\udc00"])J",
         "error: line 1, column 3: expected one of JSON's escapes; got '\\udc00'\n"},
        {"[tru",
         "error: line 1, column 2: expected a value or ']'; got 'tru'\n"},
        {"[truee]",
         "error: line 1, column 2: expected a value or ']'; got 'truee'\n"},
        {"]",
         "error: line 1, column 1: expected a JSON value; got ']'\n"},
        {"{]",
         "error: line 1, column 2: expected a key or '}'; got ']'\n"},
        {"[}",
         "error: line 1, column 2: expected a value or ']'; got '}'\n"},
        {"[1:2]",
         "error: line 1, column 3: expected ',' or ']'; got ':'\n"},
        {"{1:2}",
         "error: line 1, column 2: expected a key or '}'; got '1'\n"
         "  hint: keys stand in double quotes\n"},
        {R"J({"a","b"})J",
         "error: line 1, column 5: expected ':'; got ','\n"},
        {"[1,,2]",
         "error: line 1, column 4: expected a value; got ','\n"},
        {R"J(["abc\)J",
         "error: line 1, column 6: expected one of JSON's escapes; got '\\'\n"},
        {"@",
         "error: line 1, column 1: expected a JSON value; got '@'\n"},
        {"[\"\377\"]",
         "error: line 1, column 3: expected UTF-8 text; got the byte 0xff\n"},
        {"{\"a\": \"\303\251\", \"b\": \355\240\200}",
         "error: line 1, column 17: expected UTF-8 text; got the byte 0xed\n"},
        {std::string("{\"a\":1}\000", 8),
         "error: line 1, column 8: expected UTF-8 text; got the byte 0x00\n"},
        {"[\"\303\251\" 1]",
         "error: line 1, column 6: expected ',' or ']'; got '1'\n"},
        {std::string("\377\376{\000}\000", 6),
         "error: expected UTF-8; got UTF-16LE\n"
         "  hint: convert it: iconv -f UTF-16LE -t UTF-8\n"},
        {std::string("\376\377\000{\000}", 6),
         "error: expected UTF-8; got UTF-16BE\n"
         "  hint: convert it: iconv -f UTF-16BE -t UTF-8\n"},
        {std::string("{\000}\000", 4),
         "error: expected UTF-8; got UTF-16LE\n"
         "  hint: convert it: iconv -f UTF-16LE -t UTF-8\n"},
        {std::string("\000{\000}", 4),
         "error: expected UTF-8; got UTF-16BE\n"
         "  hint: convert it: iconv -f UTF-16BE -t UTF-8\n"},
        {std::string("\377\376\000\000{\000\000\000", 8),
         "error: expected UTF-8; got UTF-32LE\n"
         "  hint: convert it: iconv -f UTF-32LE -t UTF-8\n"},
        {"\357\273\277",
         "error: expected a JSON document; got an empty file\n"},
        {"\357\273\277[,",
         "error: line 1, column 2: expected a value or ']'; got ','\n"},
        {R"J({"a":1,"a":2,"b":[{"c":1,"c":2}],"a":3})J",
         "error: /a: expected every key once; got 'a' again\n"
         "error: /b/0/c: expected every key once; got 'c' again\n"
         "error: /a: expected every key once; got 'a' again\n"},
    };
    for (const Case& c : cases) {
        INFO(in_quotes(c.document));
        const Result<KeyTree> tree = parse_json(c.document, "run.json");
        REQUIRE_FALSE(tree.ok());
        CHECK(shown(tree.errors()) == c.errors);
        for (const Diagnostic& one : tree.errors().list()) CHECK(one.file == "run.json");
    }
}
