// A name with several addresses: Linux has all of 127.0.0.0/8.

#include "gateway/http_listener.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using boost::asio::ip::make_address;
using boost::asio::ip::tcp;
using ::testing::HasSubstr;

const tcp::endpoint kHere(make_address("127.0.0.1"), 0);
const tcp::endpoint kHereToo(make_address("127.0.0.2"), 0);
const tcp::endpoint kElsewhere(make_address("192.0.2.1"), 0);  // of documents only (RFC 5737)

TEST(HttpListener, ListensAtAllAddressesThatAreHere) {
  boost::asio::io_context io;
  const auto acceptors = ListenAt(io, {kElsewhere, kHere, kHereToo});
  ASSERT_TRUE(acceptors.ok()) << acceptors.status();
  ASSERT_EQ(acceptors->size(), 2u);
  const tcp::endpoint first = (*acceptors)[0].local_endpoint();
  const tcp::endpoint second = (*acceptors)[1].local_endpoint();
  EXPECT_EQ(first.address(), kHere.address());
  EXPECT_EQ(second.address(), kHereToo.address());
  EXPECT_NE(first.port(), 0);
  EXPECT_EQ(first.port(), second.port());
}

TEST(HttpListener, NeedsOneAddressAndFreePorts) {
  boost::asio::io_context io;
  const auto elsewhere = ListenAt(io, {kElsewhere});
  EXPECT_EQ(elsewhere.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(elsewhere.status()), HasSubstr("cannot listen on 192.0.2.1:0"));
  const auto taken = ListenAt(io, {kHereToo});
  ASSERT_TRUE(taken.ok());
  const uint16_t port = taken->front().local_endpoint().port();
  const auto second = ListenAt(io, {{kHere.address(), port}, {kHereToo.address(), port}});
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(second.status()), HasSubstr("127.0.0.2"));
}

TEST(HttpListener, ResolvesAddressesAndNames) {
  boost::asio::io_context io;
  const auto address = ResolveHost(io, "::1", 80);
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address, Endpoints({{make_address("::1"), 80}}));
  const auto name = ResolveHost(io, "localhost", 80);
  ASSERT_TRUE(name.ok()) << name.status();
  for (const tcp::endpoint& endpoint : *name) {
    EXPECT_TRUE(endpoint.address().is_loopback());
    EXPECT_EQ(endpoint.port(), 80);
  }
  EXPECT_EQ(ResolveHost(io, "", 80).status().code(), StatusCode::kInvalidArgument)
      << "nobody has said that everybody may come";
}

}  // namespace
}  // namespace aril::gateway
