#!/usr/bin/env python3
"""The chat page in Chromium: type, see the streamed answer, thinking and speed."""
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "server"))
import harness

harness.need_serve()
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    print("SKIP: chromium and chromium-driver are not installed")
    sys.exit(harness.SKIPPED)
harness.enter_venv()

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--window-size=900,800"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def wait(test, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if test():
            return True
        time.sleep(0.1)
    return False


def find(page, css):
    return page.find_elements(By.CSS_SELECTOR, css)


def text(page, css):
    found = find(page, css)
    return found[-1].get_attribute("textContent") if found else ""


def ask(page, words):
    before = len(find(page, ".message.assistant"))
    box = page.find_element(By.ID, "input")
    box.send_keys(words)
    box.send_keys(Keys.ENTER)
    return wait(lambda: len(find(page, ".message.assistant")) > before)


def idle(page):
    return not find(page, ".busy")


def a_reply_is_streamed(c, page):
    c.check("the model is named", wait(lambda: text(page, "#model") != "", 10))
    c.check("a reply opens", ask(page, "Hello!"))
    c.check("it ends", wait(lambda: idle(page)))
    c.check("it has text", len(text(page, ".content")) > 2, text(page, ".content"))
    c.check("it shows its thinking", len(text(page, ".thinking div")) > 2)
    c.check("it counts tokens", "reply tokens" in text(page, ".stats"), text(page, ".stats"))
    c.check("it shows the speed", "tokens/s" in text(page, ".stats"), text(page, ".stats"))
    c.check("no error is shown", not find(page, ".error"))
    page.save_screenshot(str(harness.ROOT / "build" / "browser.png"))


def a_second_turn_follows(c, page):
    c.check("a second reply opens", ask(page, "What is 47 + 38?"))
    c.check("it ends too", wait(lambda: idle(page)))
    c.check("and is right", "85" in text(page, ".content"), text(page, ".content"))


def settings_and_errors(c, page):
    page.find_element(By.ID, "settings").click()
    page.find_element(By.ID, "thinking").click()
    limit = page.find_element(By.ID, "limit")
    limit.clear()
    limit.send_keys("99999999")
    page.find_element(By.CSS_SELECTOR, "dialog button.main").click()
    c.check("a refused request opens", ask(page, "Hello!"))
    c.check("its error is shown", wait(lambda: "context length" in text(page, ".error"), 20),
            text(page, ".error"))
    page.find_element(By.ID, "settings").click()
    page.find_element(By.ID, "limit").clear()
    page.find_element(By.CSS_SELECTOR, "dialog button.main").click()
    page.find_element(By.ID, "new").click()
    c.check("a new chat is empty", not find(page, ".message"))
    c.check("without thinking", ask(page, "Hello!") and wait(lambda: idle(page)))
    c.check("no thinking is shown", text(page, ".thinking div") == "")


def narrow_fits(c, page):
    page.set_window_size(500, 800)
    wide = page.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    c.check("a narrow window has no sideways scroll", wide <= 0, str(wide))


def main():
    checks = harness.Checks()
    with harness.Server() as server:
        page = browser()
        try:
            page.get(server.url + "/")
            for function in (a_reply_is_streamed, a_second_turn_follows, settings_and_errors,
                             narrow_fits):
                checks.run(function.__name__, function, page)
            lines = [entry["message"] for entry in page.get_log("browser")
                     if entry["level"] == "SEVERE" and "400" not in entry["message"]]
            checks.check("the console is clean", not lines, str(lines))
        finally:
            page.quit()
    checks.end()


main()
