#include "chunker/safetensors.h"

#include <gtest/gtest.h>

#include "tests/support/checkpoint.h"

namespace p2pw {
namespace {

using testing::raw_safetensors;

Result<std::vector<TensorEntry>> parse(const std::string& file) {
  auto header = safetensors_header_bytes(as_bytes(file), file.size(), "f.safetensors", ErrorCode::bad_input);
  if (!header) return std::move(header).error();
  return parse_safetensors_header(as_bytes(file).first(*header), file.size(), "f.safetensors", ErrorCode::bad_input);
}

void expect_refused(const std::string& file, const std::string& reason) {
  auto parsed = parse(file);
  ASSERT_FALSE(parsed.ok()) << "should be refused: " << reason;
  EXPECT_EQ(parsed.error().code, ErrorCode::bad_input);
  EXPECT_NE(parsed.error().message.find("f.safetensors"), std::string::npos) << parsed.error().message;
  EXPECT_NE(parsed.error().message.find(reason), std::string::npos) << parsed.error().message;
  EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos) << "one line";
}

std::string one(const std::string& fields) { return R"({"t":{)" + fields + "}}"; }

TEST(Safetensors, ReadsTensorsInOrderOfTheirOffsets) {
  auto parsed = parse(raw_safetensors(
      R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[6,10]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,6]}}  )",
      std::string(10, 'x')));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].name, "a");
  EXPECT_EQ((*parsed)[0].shape, (std::vector<std::uint64_t>{3, 1}));
  EXPECT_EQ((*parsed)[1].end - (*parsed)[1].begin, 4u);
  EXPECT_EQ((*parsed)[1].begin, (*parsed)[0].end);
}

TEST(Safetensors, TakesEveryDtype) {
  std::mt19937_64 random(1);
  std::vector<testing::TestTensor> tensors;
  for (Dtype dtype : testing::kAllDtypes) {
    tensors.push_back(testing::random_tensor(random, std::string(name_of(dtype)), dtype, 5));
  }
  auto parsed = parse(testing::safetensors(tensors));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ((*parsed)[i].dtype, tensors[i].dtype);
}

TEST(Safetensors, TakesRankZeroZeroSizeAndUnpaddedHeaders) {
  auto parsed = parse(raw_safetensors(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                                      R"("e":{"dtype":"I64","shape":[0,7],"data_offsets":[8,8]},)"
                                      R"("z":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                      std::string(8, '\0')));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ((*parsed)[0].name, "z");
  EXPECT_EQ((*parsed)[1].name, "s");
  EXPECT_TRUE(parse(raw_safetensors("{}", "")).ok());
  EXPECT_TRUE(parse(raw_safetensors("{}      ", "")).ok());
}

TEST(Safetensors, SkipsKeysThatTheFormatDoesNotKnow) {
  auto parsed = parse(raw_safetensors(
      one(R"("x":[{"a":[1]},2],"dtype":"U8","y":{"dtype":"F32","z":{}},"shape":[1],"w":null,"data_offsets":[0,1])"),
      "x"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ((*parsed)[0].dtype, Dtype::u8);
}

TEST(Safetensors, RefusesBrokenFraming) {
  expect_refused("", "too short");
  expect_refused("1234567", "too short");
  expect_refused(std::string("\xff\0\0\0\0\0\0\0{}", 10), "runs past the end of the file");
  expect_refused(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "over the limit of 100000000");
  expect_refused(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10), "over the limit of 100000000");  // 100,000,001
  expect_refused(raw_safetensors(" {}", ""), "does not start with '{'");
  expect_refused(raw_safetensors("", ""), "does not start with '{'");
  expect_refused(raw_safetensors("{}x", ""), "not valid UTF-8 JSON");
  expect_refused(raw_safetensors("{\"a\":", ""), "not valid UTF-8 JSON");
  expect_refused(raw_safetensors("{\"\xff\":{}}", ""), "not valid UTF-8 JSON");
}

// A parser that takes NUL for the end would not see what comes behind it.
TEST(Safetensors, RefusesANulInTheHeader) {
  expect_refused(raw_safetensors(std::string("{}\0{\"a\":1}", 10), ""), "not valid UTF-8 JSON");
  expect_refused(raw_safetensors(std::string("{\"a\0b\":{}}", 10), ""), "not valid UTF-8 JSON");
}

// huggingface/safetensors 401: the error must say what is wrong, and no parser's "last one wins".
TEST(Safetensors, RefusesDuplicateKeysAtEveryLevel) {
  const std::string t = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_refused(raw_safetensors(R"({"t":)" + t + R"(,"t":)" + t + "}", "x"), "\"t\" occurs twice");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1])"), "x"),
                 "\"dtype\" occurs twice");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])"), "x"),
                 "\"shape\" occurs twice");
  expect_refused(raw_safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "\"a\" twice");
  expect_refused(raw_safetensors(R"({"__metadata__":{},"__metadata__":{}})", ""), "occurs twice");
  // The same name written with an escape is the same name.
  expect_refused(raw_safetensors(R"({"t":)" + t + R"(,"\u0074":)" + t + "}", "x"), "\"t\" occurs twice");
}

// huggingface/safetensors 95.
TEST(Safetensors, RefusesShapesThatDoNotGiveTheBytes) {
  expect_refused(raw_safetensors(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "xxxx"),
                 "tensor \"t\": shape and dtype need 8 bytes, data_offsets span 4");
  expect_refused(raw_safetensors(one(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"), "xxxxxxxx"), "need 4 bytes");
}

TEST(Safetensors, RefusesSizesThatOverflow) {
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), ""),
                 "its shape overflows");
  expect_refused(raw_safetensors(one(R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0])"), ""),
                 "its size overflows");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0])"), ""),
                 "not valid UTF-8 JSON");
}

// fastsafetensors 69 and 79, safetensors 839 and 840: packed types.
TEST(Safetensors, PackedTypesFillWholeBytes) {
  EXPECT_TRUE(parse(raw_safetensors(one(R"("dtype":"F4","shape":[4],"data_offsets":[0,2])"), "xx")).ok());
  EXPECT_TRUE(parse(raw_safetensors(one(R"("dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3])"), "xxx")).ok());
  EXPECT_TRUE(parse(raw_safetensors(one(R"("dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2])"), "xx")).ok());
  expect_refused(raw_safetensors(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), "xx"),
                 "3 elements of F4 do not fill whole bytes");
  expect_refused(raw_safetensors(one(R"("dtype":"F6_E3M2","shape":[2],"data_offsets":[0,2])"), "xx"),
                 "do not fill whole bytes");
}

TEST(Safetensors, RefusesHolesOverlapsAndOffsetsPastTheEnd) {
  auto two = [](const char* a, const char* b) {
    return std::string(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)") + a +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
  };
  expect_refused(raw_safetensors(two("[0,2]", "[3,5]"), "xxxxx"), "tensor \"b\": data_offsets leave a hole");
  expect_refused(raw_safetensors(two("[0,2]", "[1,3]"), "xxx"), "tensor \"b\": data_offsets overlap");
  expect_refused(raw_safetensors(two("[1,3]", "[3,5]"), "xxxxx"), "tensor \"a\": data_offsets leave a hole");
  expect_refused(raw_safetensors(two("[0,2]", "[4,2]"), "xxxx"), "tensor \"b\": data_offsets run backwards");
  // A shard cut short in download (ComfyUI 3225, vmlx-swift 217).
  expect_refused(raw_safetensors(two("[0,2]", "[2,4]"), "xxx"), "tensor \"b\": data_offsets end at 4");
}

// ComfyUI 15602.
TEST(Safetensors, RefusesBytesAfterTheLastTensor) {
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), "xyz"),
                 "2 bytes after the last tensor");
  expect_refused(raw_safetensors("{}", "z"), "1 bytes after the last tensor");
}

TEST(Safetensors, RefusesValuesOfAWrongType) {
  const std::string good = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  expect_refused(raw_safetensors(one(R"("dtype":"NOPE","shape":[1],"data_offsets":[0,1])"), "x"),
                 "tensor \"t\": unknown dtype \"NOPE\"");
  expect_refused(raw_safetensors(one(R"("dtype":8,"shape":[1],"data_offsets":[0,1])"), "x"), "dtype must be a string");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "x"), "a negative number");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), "x"), "shape must be");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), "x"), "an array");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), "x"), "shape must be");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "x"), "needs two numbers");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])"), "x"), "more than two");
  expect_refused(raw_safetensors(one(R"("shape":[1],"data_offsets":[0,1])"), "x"), "dtype is missing");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","data_offsets":[0,1])"), "x"), "shape is missing");
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":[1])"), "x"), "data_offsets is missing");
  expect_refused(raw_safetensors(R"({"t":[]})", ""), "tensor \"t\": expected an object, found an array");
  expect_refused(raw_safetensors(R"({"__metadata__":{"a":1}})", ""), "__metadata__ must map strings to strings");
  expect_refused(raw_safetensors(R"({"__metadata__":"a"})", ""), "__metadata__ must be an object");
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  expect_refused(raw_safetensors(one(R"("dtype":"U8","shape":)" + shape + R"(],"data_offsets":[0,1])"), "x"),
                 "more than 64 dimensions");
  EXPECT_TRUE(parse(raw_safetensors(one(good), "x")).ok());
}

// Whatever bytes come: an answer, no crash, and every error with the right code.
TEST(Safetensors, MutatedHeadersAreAnsweredForAnyBytes) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::string good = testing::safetensors({testing::random_tensor(random, "a", Dtype::bf16, 8),
                                                 testing::random_tensor(random, "b", Dtype::f32, 3)});
  ASSERT_TRUE(parse(good).ok());
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      std::size_t at = random() % 140 % bad.size();
      if (random() % 4 == 0) {
        bad.erase(at, 1 + random() % 4);
      } else {
        bad[at] = static_cast<char>(random() % 3 == 0 ? random() : "{}[]\",:0129"[random() % 11]);
      }
    }
    auto parsed = parse(bad);
    if (!parsed.ok()) {
      ASSERT_EQ(parsed.error().code, ErrorCode::bad_input);
    } else {
      for (const TensorEntry& t : *parsed) ASSERT_LE(t.end, bad.size());
    }
  }
}

}  // namespace
}  // namespace p2pw
