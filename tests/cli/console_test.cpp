#include "cli/console.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/daemon_access.h"
#include "cli/table.h"

namespace p2pw {
namespace {

struct Streams {
  std::ostringstream out, err;
  Console console(bool json, bool quiet, bool terminal = false) {
    ConsoleOptions options;
    options.json = json;
    options.quiet = quiet;
    return Console(options, out, err, terminal);
  }
};

TEST(Console, StandardOutputCarriesOnlyTheAnswer) {
  Streams s;
  Console console = s.console(false, false);
  console.note("on the way");
  console.progress("copy", 1, 2);
  console.event({{"step", 1}});
  console.answer({{"n", 1}}, "one");
  EXPECT_EQ(s.out.str(), "one\n");
  EXPECT_EQ(s.err.str(), "on the way\n");
}

TEST(Console, WithJsonTheAnswerIsAnObject) {
  Streams s;
  Console console = s.console(true, true);
  console.note("on the way");
  console.answer({{"b", 1}, {"a", "\xff"}}, "one");
  EXPECT_EQ(s.out.str(), "{\"b\":1,\"a\":\"\xef\xbf\xbd\"}\n") << "in order, and never broken by bytes that are no UTF-8";
  EXPECT_EQ(s.err.str(), "");
}

TEST(Console, ErrorsGoBothWays) {
  Streams s;
  Console console = s.console(true, true);
  console.partial({{"active", 3}});
  EXPECT_EQ(console.fail(fail(ErrorCode::timed_out, "too late")), 6);
  auto object = nlohmann::json::parse(s.out.str());
  EXPECT_EQ(object["active"], 3);
  EXPECT_EQ(object["error"]["code"], "timed_out");
  EXPECT_EQ(object["error"]["message"], "too late");
  EXPECT_EQ(object["error"]["exit"], 6);
  EXPECT_EQ(s.err.str(), "p2pw: too late\n");
}

TEST(Console, ABarIsDrawnOnATerminalOnly) {
  Streams terminal, file, quiet;
  Console on = terminal.console(false, false, true);
  on.progress("copy", 5, 10);
  EXPECT_NE(terminal.err.str().find("50%"), std::string::npos) << terminal.err.str();
  on.answer({}, "done");
  EXPECT_TRUE(terminal.err.str().ends_with("\r\033[K")) << "the bar is gone before the answer";
  file.console(false, false, false).progress("copy", 5, 10);
  EXPECT_EQ(file.err.str(), "");
  quiet.console(false, true, true).progress("copy", 5, 10);
  EXPECT_EQ(quiet.err.str(), "");
}

TEST(Console, NoControlCharactersReachTheTerminal) {
  Streams s;
  s.console(false, false).fail(fail(ErrorCode::bad_input, "file \033[2J\x07 is bad"));
  EXPECT_EQ(s.err.str(), "p2pw: file ?[2J? is bad\n");
}

TEST(Human, BytesAndSeconds) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(67'108'864), "67.1 MB");
  EXPECT_EQ(human_bytes(999'999'999), "1.00 GB");
  EXPECT_EQ(human_seconds(0.0421), "42 ms");
  EXPECT_EQ(human_seconds(2.25), "2.2 s");
  EXPECT_EQ(human_seconds(61), "1 min 01 s");
  EXPECT_EQ(human_seconds(7260), "2 h 01 min");
}

TEST(Human, Percent) {
  EXPECT_EQ(parse_percent("95%").value(), 95);
  EXPECT_EQ(parse_percent("0.5").value(), 0.5);
  for (const char* bad : {"", "0", "-1", "101", "95%x", "x", "nan", "1e999"}) {
    EXPECT_FALSE(parse_percent(bad).ok()) << bad;
  }
}

TEST(Table, ColumnsAreAligned) {
  Table table({"node", ">lag"});
  table.row({"a", "1 s"});
  table.row({"longer", "10 s"});
  EXPECT_EQ(table.text(), "node     lag\na        1 s\nlonger  10 s\n");
}

}  // namespace
}  // namespace p2pw
