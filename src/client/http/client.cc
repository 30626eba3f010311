#include "client/http/client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <string_view>

#include "base/handle.h"
#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::otlp {
namespace {

constexpr std::size_t kMaxAnswer = std::size_t{64} * 1024;

using Easy = std::unique_ptr<CURL, Destroyer<curl_easy_cleanup>>;
using Multi = std::unique_ptr<CURLM, Destroyer<curl_multi_cleanup>>;
using List = std::unique_ptr<curl_slist, Destroyer<curl_slist_free_all>>;
using Url = std::unique_ptr<CURLU, Destroyer<curl_url_cleanup>>;
using Text = std::unique_ptr<char, Destroyer<curl_free>>;

// Counted by libcurl, and thread-safe since 7.84.
class Library {
 public:
  Library() {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      throw PermanentError("otlp: libcurl cannot be initialised");
    }
  }
  ~Library() { curl_global_cleanup(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  return Text(text).get();
}

// The address may hold a secret: no message shows more than its host.
std::string checked_where(const std::string& address) {
  const Url url(curl_url());
  if (!url) throw std::bad_alloc();
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, address.c_str(), 0);
  if (code != CURLUE_OK) {
    throw MisuseError(std::string("otlp: the endpoint is no address of http or https: ") +
                      curl_url_strerror(code));
  }
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") {
    throw MisuseError("otlp: the endpoint has the scheme " + quote(scheme) +
                      ", http and https are supported");
  }
  if (!part_of(url.get(), CURLUPART_USER).empty() ||
      !part_of(url.get(), CURLUPART_PASSWORD).empty()) {
    throw MisuseError("otlp: the endpoint holds a user or a password, use the headers instead");
  }
  return scheme + "://" + part_of(url.get(), CURLUPART_HOST) + ":" +
         part_of(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

bool is_token(std::string_view name) {
  constexpr std::string_view kUpdates = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
           kUpdates.find(c) != kUpdates.npos;
  });
}

void append(List& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)list.release();
  list.reset(longer);
}

List header_list(const std::map<std::string, std::string>& headers) {
  List list;
  append(list, "Content-Type: application/json");
  append(list, "Expect:");  // no asking before a large body: that costs a round trip
  for (const auto& [name, value] : headers) {
    if (!is_token(name)) {
      throw MisuseError("otlp: a header is named " + quote(name) + ", which HTTP does not allow");
    }
    if (std::any_of(value.begin(), value.end(), [](char c) {
          return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f';
        })) {
      throw MisuseError("otlp: the value of the header " + quote(name) +
                        " has a control character");
    }
    // Without a value, libcurl wants a semicolon or leaves the header out.
    std::string line = name;
    line += value.empty() ? ";" : ": ";
    append(list, line.append(value));
  }
  return list;
}

// Whether the same request may succeed later.
bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

std::size_t keep_beginning(char* data, std::size_t size, std::size_t count, void* body) {
  auto& kept = *static_cast<std::string*>(body);
  kept.append(data, std::min(size * count, kMaxAnswer - kept.size()));
  return size * count;
}

}  // namespace

// Destroyed from the last to the first, as each is used by those after it.
class HttpPost::Handles {
 public:
  Handles(const std::string& url, const std::map<std::string, std::string>& names)
      : headers(header_list(names)), multi(curl_multi_init()), easy(curl_easy_init()) {
    if (!multi || !easy) throw std::bad_alloc();
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_USERAGENT, "outbox");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_POST, 1L);
    set(CURLOPT_WRITEFUNCTION, &keep_beginning);
    set(CURLOPT_ERRORBUFFER, error.data());
  }

  template <class Value>
  void set(CURLoption option, Value value) const {
    const CURLcode code = curl_easy_setopt(easy.get(), option, value);
    if (code != CURLE_OK) {
      throw PermanentError("otlp: libcurl does not take option " +
                           std::to_string(static_cast<int>(option)) + ": " +
                           curl_easy_strerror(code));
    }
  }

  const Library library;
  const List headers;
  const Multi multi;
  std::array<char, CURL_ERROR_SIZE> error{};
  const Easy easy;
};

HttpPost::HttpPost(const std::string& url, const std::map<std::string, std::string>& headers)
    : where_(checked_where(url)), handles_(std::make_unique<Handles>(url, headers)) {}

HttpPost::~HttpPost() = default;

void HttpPost::wake() noexcept { curl_multi_wakeup(handles_->multi.get()); }

Answer HttpPost::post(const std::string& body, const std::function<Deadline()>& deadline) {
  CURLM* multi = handles_->multi.get();
  CURL* easy = handles_->easy.get();
  Answer answer;
  handles_->error.front() = '\0';
  handles_->set(CURLOPT_POSTFIELDS, body.data());
  handles_->set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  handles_->set(CURLOPT_WRITEDATA, &answer.body);
  curl_multi_add_handle(multi, easy);

  std::optional<CURLcode> result;
  while (!result) {
    int running = 0;
    const CURLMcode performed = curl_multi_perform(multi, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    if (result) break;
    const auto time =
        std::chrono::ceil<std::chrono::milliseconds>(deadline() - std::chrono::steady_clock::now());
    if (performed != CURLM_OK || time.count() <= 0) {
      result = performed == CURLM_OK ? CURLE_OPERATION_TIMEDOUT : CURLE_FAILED_INIT;
      break;
    }
    constexpr long kLongestWait = 60'000;
    const auto wait = std::min<long>(kLongestWait, static_cast<long>(time.count()));
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(wait), nullptr);
  }
  curl_multi_remove_handle(multi, easy);

  if (*result != CURLE_OK) {
    const std::string_view detail(handles_->error.data());
    answer.error = printable(detail.empty() ? curl_easy_strerror(*result) : detail);
    answer.unreachable = may_pass(*result);
    return answer;
  }
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0) {
    answer.retry_after = std::chrono::seconds(seconds);
  }
  return answer;
}

}  // namespace outbox::otlp
