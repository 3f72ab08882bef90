#include <fmt/format.h>

#include <exception>
#include <ostream>

#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "membudget/cli.hpp"
#include "membudget/membudget.hpp"

namespace membudget {
namespace {

using namespace cli;

std::string help() {
    std::string out = fmt::format(
        "{}: where the memory of a training job goes, term by term\n\n"
        "Usage: membudget COMMAND [OPTIONS] ...\n\nCommands:\n", version());
    for (const Command& command : commands())
        out += fmt::format("  {:<10}{}\n", command.name, command.doc);
    out += "\nExamples:\n";
    for (const Command& command : commands()) out += fmt::format("  {}\n", command.example);
    out += "\nOptions:\n"
           "  -h, --help     print this help; `membudget COMMAND --help` tells more\n"
           "  --version      print name and version\n"
           "\nExit status: 0 done, 1 over budget, 2 wrong usage or input, 3 not supported,\n"
           "70 a defect of this program. `-` as a file name is standard input.\n";
    return out;
}

ExitCode fail(const Diagnostics& errors, Arguments arguments, Streams& streams) {
    print(errors, streams.err);
    if (asks_for_json(arguments)) {
        ReportData data;
        data.errors = errors;
        streams.out << writers().find("json")->write(data, {});
    }
    return ExitCode::bad_input;
}

ExitCode dispatch(Arguments arguments, Streams& streams) {
    if (arguments.empty()) {
        print(usage_error("expected a command", "see `membudget --help`"), streams.err);
        return ExitCode::bad_input;
    }
    const std::string& first = arguments.front();
    if (first == "--version" || first == "-V") {
        streams.out << version() << '\n';
        return ExitCode::done;
    }
    if (first == "--help" || first == "-h" || first == "help") {
        const Command* topic = arguments.size() > 1 ? commands().find(arguments[1]) : nullptr;
        if (topic != nullptr) return topic->run(std::vector<std::string>{"--help"}, streams);
        streams.out << help();
        return ExitCode::done;
    }
    if (const Command* command = commands().find(first))
        return command->run(arguments.subspan(1), streams);

    const bool option = first.starts_with('-');
    std::string hint = option ? "options follow the command: membudget COMMAND [OPTIONS] ..."
                              : did_you_mean(first, commands().names());
    if (hint.empty()) hint = "see `membudget --help`";
    return fail(usage_error(fmt::format("{} '{}'", option ? "unknown option" : "unknown command",
                                        first),
                            std::move(hint)),
                arguments, streams);
}

}  // namespace

ExitCode run_cli(std::span<const std::string> arguments, Streams& streams) {
    try {
        return dispatch(arguments, streams);
    } catch (const std::exception& error) {
        streams.err << fmt::format("internal error: {} ({}): please report it with the input\n",
                                   error.what(), version());
        return ExitCode::defect;
    }
}

}  // namespace membudget
