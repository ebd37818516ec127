#include "daemon/mirror/mirror_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "daemon/mirror/mirror_names.h"
#include "daemon/mirror/mirror_plan.h"
#include "protocol/limits.h"
#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

Bytes bytes_of(std::string_view text) {
  auto view = as_bytes(text);
  return Bytes(view.begin(), view.end());
}

class FolderStoreTest : public ::testing::Test {
 protected:
  std::size_t files() const {
    std::size_t count = 0;
    for (auto& entry : fs::recursive_directory_iterator(dir.path())) count += entry.is_regular_file();
    return count;
  }
  ErrorCode code_of(const auto& result) const { return result.ok() ? ErrorCode::failed : result.error().code; }

  TempDir dir;
  std::unique_ptr<MirrorStore> store = open_folder_store(dir.path());
};

TEST_F(FolderStoreTest, WhatWasPutIsReadWholeAndInPart) {
  const Bytes content = bytes_of("0123456789");
  ASSERT_TRUE(store->put("c/k/bundles/a.bundle", body_of(content)).ok());
  EXPECT_EQ(*store->size("c/k/bundles/a.bundle"), 10u);
  EXPECT_EQ(*store->get("c/k/bundles/a.bundle", 10), content);
  EXPECT_EQ(*store->get_range("c/k/bundles/a.bundle", 3, 4), bytes_of("3456"));
  ASSERT_TRUE(store->put("c/k/bundles/a.bundle", body_of(bytes_of("new"))).ok());
  EXPECT_EQ(*store->get("c/k/bundles/a.bundle", 10), bytes_of("new"));
  EXPECT_EQ(files(), 1u);
  EXPECT_TRUE(store->remove("c/k/bundles/a.bundle").ok());
  EXPECT_TRUE(store->remove("c/k/bundles/a.bundle").ok()) << "what is not there is fine";
  EXPECT_EQ(code_of(store->get("c/k/bundles/a.bundle", 10)), ErrorCode::not_found);
}

TEST_F(FolderStoreTest, NoMoreIsReadThanWasAskedFor) {
  ASSERT_TRUE(store->put("records", body_of(bytes_of("0123456789"))).ok());
  EXPECT_EQ(code_of(store->get("records", 9)), ErrorCode::limit);
  EXPECT_EQ(code_of(store->get_range("records", 5, 6)), ErrorCode::incomplete);
  EXPECT_EQ(code_of(store->get_range("records", ~0ull, 2)), ErrorCode::incomplete);
}

TEST_F(FolderStoreTest, AnUploadThatEndsHalfWayLeavesTheOldObject) {
  ASSERT_TRUE(store->put("a", body_of(bytes_of("old"))).ok());
  MirrorBody broken{3u << 20,
                    [](std::uint64_t offset, std::span<std::byte>) -> Status {
                      return offset == 0 ? Status() : Status(fail(ErrorCode::io, "the disk has gone"));
                    },
                    {}};
  EXPECT_EQ(code_of(store->put("a", broken)), ErrorCode::io);
  EXPECT_EQ(*store->get("a", 10), bytes_of("old"));
  EXPECT_EQ(files(), 1u) << "nothing is left behind";
}

// A writer that was killed between writing and renaming: its file is never read, and goes when it is old.
TEST_F(FolderStoreTest, LeftoversOfAKilledWriterAreRemoved) {
  fs::create_directories(dir / "c");
  for (const char* name : {".a.bundle.p2pw-0123456789abcdef", ".b.bundle.p2pw-0123456789abcdef"}) {
    std::ofstream(dir.path() / "c" / name) << "half";
  }
  fs::last_write_time(dir.path() / "c" / ".a.bundle.p2pw-0123456789abcdef",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(code_of(store->get("c/a.bundle", 10)), ErrorCode::not_found);
  ASSERT_TRUE(store->put("c/a.bundle", body_of(bytes_of("whole"))).ok());
  EXPECT_FALSE(fs::exists(dir.path() / "c" / ".a.bundle.p2pw-0123456789abcdef"));
  EXPECT_TRUE(fs::exists(dir.path() / "c" / ".b.bundle.p2pw-0123456789abcdef")) << "another writer may be at work on it";
}

// An empty mount point is not filled, and is told apart from an object that is not there.
TEST_F(FolderStoreTest, AFolderThatIsNotThereIsUnreachable) {
  auto gone = open_folder_store(dir / "not-mounted");
  EXPECT_EQ(code_of(gone->put("a", body_of(bytes_of("x")))), ErrorCode::unreachable);
  EXPECT_EQ(code_of(gone->get("a", 1)), ErrorCode::unreachable);
  EXPECT_FALSE(fs::exists(dir / "not-mounted"));
}

TEST_F(FolderStoreTest, NothingIsDoneAfterStop) {
  store->stop();
  EXPECT_EQ(code_of(store->put("a", body_of(bytes_of("x")))), ErrorCode::interrupted);
}

TEST(HttpStore, NobodyListensIsUnreachableAndAWebServerIsNotWrittenTo) {
  auto url = parse_mirror_url("http://127.0.0.1:1/weights");  // tcpmux: nobody
  ASSERT_TRUE(url.ok());
  auto store = open_mirror_store(*url, [] { return Result<MirrorCredentials>(MirrorCredentials()); });
  auto got = store->get("records", 10);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::unreachable);
  EXPECT_NE(got.error().message.find("http://127.0.0.1:1/weights/records"), std::string::npos);
  const Bytes one = bytes_of("x");
  EXPECT_EQ(store->put("a", body_of(one)).error().code, ErrorCode::unsupported);
}

TEST(MirrorUrl, FoldersWebServersAndS3) {
  EXPECT_EQ(parse_mirror_url("file:///srv/p2pw")->folder, "/srv/p2pw");
  auto web = parse_mirror_url("https://weights.example:8443/p2pw/");
  EXPECT_EQ(web->base, "https://weights.example:8443/p2pw");
  EXPECT_FALSE(web->writable());
  auto amazon = parse_mirror_url("s3://weights/fleet-1?region=eu-west-1");
  EXPECT_EQ(amazon->base, "https://s3.eu-west-1.amazonaws.com/weights/fleet-1");
  auto other = parse_mirror_url("s3://weights?endpoint=http://10.0.0.9:9000");
  EXPECT_EQ(other->base, "http://10.0.0.9:9000/weights");
  EXPECT_EQ(other->region, "us-east-1");
  EXPECT_TRUE(other->writable());
}

TEST(MirrorUrl, RefusesWhatCannotBeOrMustNotBe) {
  for (const char* wrong :
       {"", "weights", "ftp://host/x", "file://relative/path", "http://", "http://user:secret@host/x", "http://host/a b",
        "http://host/../x", "http://host/x?y=z", "s3://a", "s3://bucket/%2e", "s3://weights?endpoint=host:9000",
        "s3://weights?endpoint=http://id:secret@host", "s3://weights?secret=x", "s3://weights?region="}) {
    auto parsed = parse_mirror_url(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.error().code, ErrorCode::config) << wrong;
  }
}

TEST(MirrorCredentials, AreReadLikeAmazonsFile) {
  auto read = parse_mirror_credentials("# mine\n[default]\naws_access_key_id = AKID\n  aws_secret_access_key=a/b+c=\n");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->id, "AKID");
  EXPECT_EQ(read->secret, "a/b+c=");
  EXPECT_FALSE(parse_mirror_credentials("aws_access_key_id = AKID\n").ok());
  EXPECT_FALSE(parse_mirror_credentials("aws_access_key_id = A\raws_secret_access_key = x\n").ok());
}

TEST(MirrorNames, RecordsAreCutApartOnlyWhenWhole) {
  const std::vector<Bytes> records = {bytes_of("one"), bytes_of("two and more")};
  const Bytes encoded = encode_records(records);
  EXPECT_EQ(*decode_records(encoded), records);
  EXPECT_TRUE(decode_records({})->empty());
  for (std::size_t cut = 1; cut < encoded.size(); ++cut) {
    const bool between = cut == 4 + 3;
    EXPECT_EQ(decode_records(ByteView(encoded).first(cut)).ok(), between) << cut;
  }
  const Bytes large(limits::kMaxRecordBytes + 1);
  EXPECT_FALSE(decode_records(encode_records({large})).ok());
  EXPECT_FALSE(decode_records(encode_records({Bytes()})).ok());
}

TEST(MirrorNames, TheHintIsReadStrictly) {
  const MirrorPosition position{Version(12), Version(10), Version(11)};
  EXPECT_EQ(*MirrorPosition::parse(position.text()), position);
  for (const char* wrong :
       {"", "\n", "p2pw-mirror-1", "p2pw-mirror-1 1 2\n", "p2pw-mirror-1 1 2 3 4\n", "p2pw-mirror-1 1 2 x\n",
        "p2pw-mirror-1 1 2 99999999999999999999999\n", "p2pw-mirror-2 1 2 3\n", "p2pw-mirror-1 1 2 3"}) {
    EXPECT_FALSE(MirrorPosition::parse(wrong).ok()) << wrong;
  }
}

TEST(MirrorPlan, FirstInLineAsksFirst) {
  using namespace std::chrono_literals;
  const SteadyTime since{};
  EXPECT_FALSE(turn_has_come(since + 2999ms, since, 3s, 0, 2s));
  EXPECT_TRUE(turn_has_come(since + 3s, since, 3s, 0, 2s));
  EXPECT_FALSE(turn_has_come(since + 3s, since, 3s, 1, 2s));
  EXPECT_TRUE(turn_has_come(since + 5s, since, 3s, 1, 2s));
  MirrorPatience patience;
  EXPECT_EQ(write_delay(0, patience), 0ms);
  EXPECT_LT(write_delay(1, patience), write_delay(2, patience));
  EXPECT_EQ(write_delay(1u << 30, patience), patience.write_most);
}

TEST(MirrorPlan, AFailingMirrorIsLeftAloneLongerEachTimeAndNotForEver) {
  using namespace std::chrono_literals;
  MirrorBackoff backoff;
  SteadyTime now = SteadyTime{} + 1h;
  EXPECT_TRUE(backoff.may_try(now));
  backoff.failed(now);
  backoff.failed(now);  // a call of the same moment
  EXPECT_FALSE(backoff.may_try(now + 1s));
  EXPECT_TRUE(backoff.may_try(now + 2s));
  now += 2s;
  backoff.failed(now);
  EXPECT_FALSE(backoff.may_try(now + 3s));
  for (int i = 0; i < 20; ++i) backoff.failed(now += 60s);
  EXPECT_TRUE(backoff.may_try(now + 60s));
  backoff.succeeded();
  EXPECT_TRUE(backoff.may_try(now));
}

}  // namespace
}  // namespace p2pw
