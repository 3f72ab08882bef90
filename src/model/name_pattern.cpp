#include "model/name_pattern.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace membudget {

namespace {

using Step = NamePattern::Step;
using Characters = NamePattern::Characters;

/// Longer patterns and larger automata are no patterns of names.
constexpr std::size_t kLongest = 1000;
constexpr std::size_t kMostSteps = 4'000;
constexpr int kMostRepeats = 1000;

/// What a pattern says that cannot be understood.
struct Refusal {
    Trouble trouble = Trouble::invalid;
    std::string message;
};

Characters one(char c) {
    Characters set;
    set.set(static_cast<unsigned char>(c));
    return set;
}

Characters range(char from, char to) {
    Characters set;
    for (int c = static_cast<unsigned char>(from); c <= static_cast<unsigned char>(to); ++c)
        set.set(static_cast<std::size_t>(c));
    return set;
}

Characters digits() { return range('0', '9'); }
Characters word() { return digits() | range('a', 'z') | range('A', 'Z') | one('_'); }
Characters space() { return one(' ') | range('\t', '\r'); }

/// A recursive descent that writes a fragment of the automaton for each piece it reads. Fragments are
/// relative: a target counts from the fragment's own step.
class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    std::vector<Step> run() {
        if (text_.size() > kLongest)
            throw Refusal{Trouble::invalid, fmt::format("expected a pattern of at most {} characters; "
                                                        "got {}", kLongest, text_.size())};
        std::vector<Step> steps = alternatives();
        if (!at_end()) refuse("unbalanced ')'");
        steps.push_back({Step::Kind::match, {}, 0, 0});
        return steps;
    }

private:
    using Fragment = std::vector<Step>;

    [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
    [[nodiscard]] char peek() const { return text_[at_]; }
    bool take(char c) {
        if (at_end() || peek() != c) return false;
        ++at_;
        return true;
    }
    [[noreturn]] void refuse(std::string_view why) const {
        throw Refusal{Trouble::invalid, fmt::format("expected a regular expression; got {} at character {} "
                                                    "of {}", why, at_ + 1, in_quotes(text_))};
    }
    [[noreturn]] void unknown(std::string_view what) const {
        throw Refusal{Trouble::unsupported,
                      fmt::format("{} in a regular expression: not known here, got {}", what,
                                  in_quotes(text_))};
    }
    static void append(Fragment& to, const Fragment& more) {
        if (to.size() + more.size() > kMostSteps)
            throw Refusal{Trouble::invalid, "expected a simpler regular expression"};
        const std::size_t base = to.size();
        for (Step step : more) {
            step.to += base;
            step.other += base;
            to.push_back(step);
        }
    }
    static Step split(std::size_t to, std::size_t other) { return {Step::Kind::split, {}, to, other}; }

    Fragment alternatives() {
        Fragment first = sequence();
        while (take('|')) {
            const Fragment second = sequence();
            Fragment both{split(1, first.size() + 2)};
            append(both, first);
            both.push_back({Step::Kind::jump, {}, first.size() + second.size() + 2, 0});
            append(both, second);
            first = std::move(both);
        }
        return first;
    }

    Fragment sequence() {
        Fragment out;
        while (!at_end() && peek() != '|' && peek() != ')') append(out, repeated());
        return out;
    }

    Fragment repeated() {
        const Fragment piece = atom();
        int least = 1, most = 1;
        if (take('*')) {
            least = 0;
            most = -1;
        } else if (take('+')) {
            most = -1;
        } else if (take('?')) {
            least = 0;
        } else if (!bounds(least, most)) {
            return piece;
        }
        take('?');  // lazy: whether the whole matches does not depend on it
        if (!at_end() && (peek() == '*' || peek() == '+')) refuse("a repeated repetition");
        Fragment out;
        for (int i = 0; i < least; ++i) append(out, piece);
        if (most < 0) {
            Fragment loop{split(1, piece.size() + 2)};
            append(loop, piece);
            loop.push_back({Step::Kind::jump, {}, 0, 0});
            append(out, loop);
        }
        for (int i = least; i < most; ++i) {
            Fragment optional{split(1, piece.size() + 1)};
            append(optional, piece);
            append(out, optional);
        }
        return out;
    }

    /// `{m}`, `{m,}`, `{,n}`, `{m,n}`; anything else in braces is text, as in Python.
    bool bounds(int& least, int& most) {
        const std::size_t start = at_;
        if (!take('{')) return false;
        const std::optional<int> low = number();
        const bool comma = take(',');
        const std::optional<int> high = comma ? number() : low;
        if (!take('}') || (!low && !high)) {
            at_ = start;
            return false;
        }
        least = low.value_or(0);
        most = high.value_or(-1);
        if (least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
            refuse("bounds of a repetition out of range");
        return true;
    }

    std::optional<int> number() {
        std::optional<int> value;
        while (!at_end() && peek() >= '0' && peek() <= '9') {
            value = std::min(value.value_or(0) * 10 + (peek() - '0'), kMostRepeats + 1);
            ++at_;
        }
        return value;
    }

    Fragment atom() {
        const char c = peek();
        if (c == '(') return group();
        ++at_;
        switch (c) {
            case '^': return {{Step::Kind::begin, {}, 0, 0}};
            case '$': return {{Step::Kind::end, {}, 0, 0}};
            case '.': return {{Step::Kind::character, ~one('\n'), 0, 0}};
            case '[': return {{Step::Kind::character, characters(), 0, 0}};
            case '\\': return {{Step::Kind::character, escaped(), 0, 0}};
            case '*':
            case '+':
            case '?': --at_; refuse("a repetition of nothing");
            default: return {{Step::Kind::character, one(c), 0, 0}};
        }
    }

    Fragment group() {
        ++at_;
        if (take('?')) {
            if (take('P')) {
                if (!take('<')) unknown("a back-reference");
                while (!at_end() && peek() != '>') ++at_;
                if (!take('>')) refuse("an open group name");
            } else if (!take(':')) {
                unknown("look-around or flags");
            }
        }
        Fragment inside = alternatives();
        if (!take(')')) refuse("an open '('");
        return inside;
    }

    Characters escaped() {
        if (at_end()) refuse("a backslash at the end");
        const char c = text_[at_++];
        switch (c) {
            case 'd': return digits();
            case 'D': return ~digits();
            case 'w': return word();
            case 'W': return ~word();
            case 's': return space();
            case 'S': return ~space();
            case 't': return one('\t');
            case 'n': return one('\n');
            default: break;
        }
        if (word().test(static_cast<unsigned char>(c))) unknown(fmt::format("'\\{}'", c));
        return one(c);
    }

    Characters characters() {
        const bool negated = take('^');
        Characters set;
        bool first = true;
        while (first || at_end() || peek() != ']') {
            if (at_end()) refuse("an open '['");
            first = false;
            const char c = text_[at_++];
            if (c == '\\') {
                set |= escaped();
                continue;
            }
            const bool ranged = at_ + 1 < text_.size() && peek() == '-' && text_[at_ + 1] != ']';
            if (!ranged) {
                set |= one(c);
                continue;
            }
            const char to = text_[at_ + 1];
            at_ += 2;
            if (to == '\\' || static_cast<unsigned char>(to) < static_cast<unsigned char>(c))
                refuse("a bad range of characters");
            set |= range(c, to);
        }
        ++at_;
        return negated ? ~set : set;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// The states that are reached without reading a character, each once.
class States {
public:
    States(const std::vector<Step>& steps, std::size_t length) : steps_(steps), length_(length) {}

    void start(std::size_t position) {
        position_ = position;
        list_.clear();
        seen_.assign(steps_.size(), false);
    }
    void add(std::size_t first) {
        std::vector<std::size_t> waiting{first};
        while (!waiting.empty()) {
            const std::size_t at = waiting.back();
            waiting.pop_back();
            if (seen_[at]) continue;
            seen_[at] = true;
            const Step& step = steps_[at];
            switch (step.kind) {
                case Step::Kind::jump: waiting.push_back(step.to); break;
                case Step::Kind::split:
                    waiting.push_back(step.to);
                    waiting.push_back(step.other);
                    break;
                case Step::Kind::begin:
                    if (position_ == 0) waiting.push_back(at + 1);
                    break;
                case Step::Kind::end:
                    if (position_ == length_) waiting.push_back(at + 1);
                    break;
                case Step::Kind::character:
                case Step::Kind::match: list_.push_back(at); break;
            }
        }
    }
    [[nodiscard]] const std::vector<std::size_t>& list() const { return list_; }
    void swap(States& other) { list_.swap(other.list_); }

private:
    const std::vector<Step>& steps_;
    std::size_t length_, position_ = 0;
    std::vector<std::size_t> list_;
    std::vector<bool> seen_;
};

}  // namespace

/// The characters that stand last in every match: steps of one character each, which nothing passes by.
NamePattern::NamePattern(std::vector<Step> steps) : steps_(std::move(steps)) {
    std::size_t first = 0;  // the last step that others lead to
    for (const Step& step : steps_) {
        if (step.kind == Step::Kind::jump || step.kind == Step::Kind::split) first = std::max(first, step.to);
        if (step.kind == Step::Kind::split) first = std::max(first, step.other);
    }
    for (std::size_t at = steps_.size() - 1; at-- > first;) {
        const Step& step = steps_[at];
        if (step.kind != Step::Kind::character || step.characters.count() != 1) break;
        std::size_t only = 0;
        while (!step.characters.test(only)) ++only;
        tail_.insert(tail_.begin(), static_cast<char>(only));
    }
}

Result<NamePattern> NamePattern::parse(std::string_view text) {
    try {
        return NamePattern(Parser(text).run());
    } catch (const Refusal& refusal) {
        return Diagnostic{refusal.trouble, "", "", refusal.message, ""};
    }
}

bool NamePattern::matches(std::string_view name) const {
    if (!name.ends_with(tail_)) return false;
    States now(steps_, name.size()), next(steps_, name.size());
    now.start(0);
    now.add(0);
    for (std::size_t i = 0; i < name.size(); ++i) {
        next.start(i + 1);
        for (const std::size_t at : now.list())
            if (steps_[at].kind == Step::Kind::character &&
                steps_[at].characters.test(static_cast<unsigned char>(name[i])))
                next.add(at + 1);
        now.swap(next);
    }
    return std::any_of(now.list().begin(), now.list().end(),
                       [&](std::size_t at) { return steps_[at].kind == Step::Kind::match; });
}

bool is_module_suffix(std::string_view name, std::string_view suffix) {
    return name == suffix || (name.size() > suffix.size() && name.ends_with(suffix) &&
                              name[name.size() - suffix.size() - 1] == '.');
}

bool matches_wildcard(std::string_view pattern, std::string_view name) {
    std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            resume = n;
        } else if (p < pattern.size() && pattern[p] == name[n]) {
            ++p;
            ++n;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            n = ++resume;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace membudget
