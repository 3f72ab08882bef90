#include "cli/help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "membudget/report.hpp"

namespace membudget::cli {
namespace {

constexpr std::string_view kExitStatus =
    "Exit status:\n"
    "  0   done: the job fits, or no budget was given\n"
    "  1   over budget; uncertain under --strict; growth beyond --max-increase\n"
    "  2   wrong usage or input, or an output that cannot be written\n"
    "  3   valid input that is not supported\n"
    "  70  a defect of this program\n";

/// "  -f, --format NAME" with its description beside it, wrapped.
void append_option(std::string& out, const CLI::Option& option) {
    constexpr std::size_t kColumn = 26, kWidth = 80;
    std::string names;
    if (option.get_positional()) {
        names = option.get_name();
    } else {
        for (const std::string& name : option.get_snames()) names += fmt::format("-{}, ", name);
        for (const std::string& name : option.get_lnames()) names += fmt::format("--{} ", name);
        names += option.get_expected_max() == 0 ? "" : option.get_type_name();
    }
    std::string line = fmt::format("  {:<{}}", names, kColumn - 2);
    for (const std::string& part : wrap(option.get_description(), kWidth - kColumn)) {
        if (line.size() > kColumn) {  // names too long for their column stand alone
            out += line + '\n';
            line.assign(kColumn, ' ');
        }
        out += line + part + '\n';
        line.assign(kColumn, ' ');
    }
}

}  // namespace

std::string help_text(const CLI::App& app) {
    std::vector<std::string> groups;
    std::string positionals;
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_positional())
            positionals += fmt::format(" {}{}", option->get_name(),
                                       option->get_expected_max() > 1 ? "..." : "");
        else if (std::find(groups.begin(), groups.end(), option->get_group()) == groups.end())
            groups.push_back(option->get_group());
    }
    std::string out = fmt::format("membudget {0}: {1}\n\nUsage: membudget {0}{2} [OPTIONS]\n\n",
                                  app.get_name(), app.get_description(), positionals);
    for (const CLI::Option* option : app.get_options())
        if (option->get_positional()) append_option(out, *option);
    for (const std::string& group : groups) {
        out += fmt::format("\n{}:\n", group);
        for (const CLI::Option* option : app.get_options())
            if (!option->get_positional() && option->get_group() == group)
                append_option(out, *option);
    }
    return out + fmt::format("\n{}\n\n{}", app.get_footer(), kExitStatus);
}

}  // namespace membudget::cli
