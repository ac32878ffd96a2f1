#include "sources/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "gtest/gtest.h"

namespace aril {
namespace {

AddressReach Reach(const std::string& text) {
  sockaddr_storage storage = {};
  auto* const in = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const in6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text.c_str(), &in->sin_addr) == 1) {
    storage.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &in6->sin6_addr), 1) << text;
    storage.ss_family = AF_INET6;
  }
  const auto& address = reinterpret_cast<const sockaddr&>(storage);
  EXPECT_EQ(AddressText(address), text);
  return ReachOf(address);
}

// The first and the last address of each block, and their neighbours outside.
TEST(IpAddress, PublicOnesAreEverybodys) {
  for (const char* text :
       {"1.1.1.1",         "9.255.255.255",   "11.0.0.0",        "100.63.255.255", "100.128.0.0",
        "126.255.255.255", "128.0.0.0",       "169.253.255.255", "169.255.0.0",    "172.15.255.255",
        "172.32.0.0",      "192.167.255.255", "192.169.0.0",     "198.17.255.255", "198.20.0.0",
        "223.255.255.255", "192.0.1.0",       "203.0.112.255",   "203.0.114.0",    "2001:200::1",
        "2606:4700::1111", "2a00:1450::1",    "3ffe:ffff::1",    "2001:db9::1"}) {
    EXPECT_EQ(Reach(text), AddressReach::kPublic) << text;
  }
}

TEST(IpAddress, PrivateOnesAreThisNetworks) {
  for (const char* text :
       {"10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
        "127.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255", "::1",
        "fc00::1", "fd00:ec2::254", "fdff:ffff::1"}) {
    EXPECT_EQ(Reach(text), AddressReach::kPrivate) << text;
  }
}

TEST(IpAddress, SomeServeNothing) {
  for (const char* text : {"0.0.0.0",
                           "0.255.255.255",
                           "169.254.0.0",
                           "169.254.169.254",
                           "169.254.255.255",
                           "192.0.0.8",
                           "192.0.2.1",
                           "192.88.99.1",
                           "198.18.0.0",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.255",
                           "224.0.0.1",
                           "239.255.255.255",
                           "240.0.0.0",
                           "255.255.255.255",
                           "::",
                           "::ffff:127.0.0.1",
                           "::ffff:8.8.8.8",
                           "::7f00:1",
                           "64:ff9b::7f00:1",
                           "64:ff9b:1::1",
                           "100::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "fe80::1",
                           "febf::1",
                           "fec0::1",
                           "ff02::1",
                           "3fff::1",
                           "4000::1"}) {
    sockaddr_in6 ignored = {};
    if (inet_pton(AF_INET6, text, &ignored.sin6_addr) == 1) {
      ignored.sin6_family = AF_INET6;
      EXPECT_EQ(ReachOf(reinterpret_cast<const sockaddr&>(ignored)), AddressReach::kNever) << text;
    } else {
      EXPECT_EQ(Reach(text), AddressReach::kNever) << text;
    }
  }
  sockaddr other = {};
  other.sa_family = AF_UNIX;
  EXPECT_EQ(ReachOf(other), AddressReach::kNever);
}

}  // namespace
}  // namespace aril
